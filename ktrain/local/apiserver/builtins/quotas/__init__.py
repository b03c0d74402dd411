"""What a namespace may use: ResourceQuotas and LimitRanges."""
