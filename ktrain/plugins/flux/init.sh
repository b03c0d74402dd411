# Runs in the image that brings Flux, once for each pod: copies Flux to the volume that the trainer's container shares,
# and writes what brokers read. `hosts` and `broker_toml` are set above. May run again, after a failure half way.
set -euo pipefail

flux=/mnt/flux
etc=$flux/config/etc
mkdir -p "$etc/flux/system/cron.d" "$etc/flux/config" "$etc/curve" "$flux/config/run/flux" "$flux/config/var/lib/flux"
printf '%s\n' "$hosts" > "$etc/flux/system/hostlist"
printf '%s' "$broker_toml" > "$etc/flux/config/broker.toml"

# A Spack view is one directory with a name of its own below `._view`, full of links into /opt/software.
shopt -s nullglob
views=(/opt/views/._view/*/)
if (( ${#views[@]} != 1 )); then
  echo "flux-installer: there are ${#views[@]} views below /opt/views/._view, and one is expected: is this image a Flux view (FLUX_VIEW_IMAGE)?" >&2
  exit 1
fi
rm -rf "$flux/view" "$flux/software"
cp -R "${views[0]%/}" "$flux/view"
cp -R /opt/software "$flux/software"
touch "$flux/flux-operator-done.txt"
