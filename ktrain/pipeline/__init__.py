"""
The pipeline: four phases that turn a TrainJob and its runtime into objects, through plugins.

- `points` what a plugin may implement; `context` what it is given; `registry` finds plugins and puts them in order
- `watches` what a plugin watches: kinds, whom their changes concern, and indexes
- `slots` `mlPolicy.plugin` and `podGroupPolicy.plugin`: whose they are, and what may be in them
- `gang` members and resources of all pods together
- `prepare` runtime + patches + TrainJob -> `Info` (`info`), the data between phases; `journal` who wrote which field
- `runner` `plan`, `validate`, `validate_runtime`, `terminal_condition`, `conditions`, `jobs_status`, `size`, `gangs`,
  `upkeep`, `removals`: pure functions over a registry
- `answers` what hooks may return; `overrun` ends those that do not end; `calls` what they took, for metrics
- `steps` which job is which step, and which container its own; `unused` fields of a TrainJob without effect
- `older` what TrainJobs of earlier versions say, in today's terms
- `findings` field errors in the API server's words; `errors` what can go wrong, and whose fault it is
"""

from .errors import PipelineError as PipelineError
from .errors import PlanError as PlanError
from .errors import PluginConflict as PluginConflict
from .errors import PluginError as PluginError
from .errors import RegistryError as RegistryError
from .findings import FieldError as FieldError
from .findings import Findings as Findings
from .info import Container as Container
from .info import Info as Info
from .info import PodSet as PodSet
from .points import Address as Address
from .points import ApplyWhen as ApplyWhen
from .points import Component as Component
from .points import Context as Context
from .points import Gang as Gang
from .points import Plugin as Plugin
from .points import Removal as Removal
from .points import Rule as Rule
from .points import Size as Size
from .points import Wait as Wait
from .prepare import prepare as prepare
from .registry import Registry as Registry
from .runner import Plan as Plan
from .runner import conditions as conditions
from .runner import gangs as gangs
from .runner import jobs_status as jobs_status
from .runner import plan as plan
from .runner import removals as removals
from .runner import size as size
from .runner import terminal_condition as terminal_condition
from .runner import upkeep as upkeep
from .runner import validate as validate
from .runner import validate_runtime as validate_runtime
from .unused import Unused as Unused
from .unused import unused as unused
from .watches import Index as Index
from .watches import Mapped as Mapped
from .watches import Owned as Owned
from .watches import Suspended as Suspended
from .watches import Watch as Watch
from .watches import World as World
