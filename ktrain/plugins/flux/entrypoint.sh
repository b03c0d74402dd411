# Runs in the user's image, instead of the user's program: starts a broker, and on the first host has Flux run the
# program on all of them. `lead`, `hosts`, `resources`, `run_options` and `program` are set above. The first argument is
# the program as one text, for people; arguments of the runtime follow it.
set -uo pipefail
shift || true
program+=("$@")

flux=/mnt/flux
view=$flux/view
etc=$flux/config/etc
run=$flux/config/run/flux
export STATE_DIR=$flux/config/var/lib/flux
export FLUX_OUTPUT_DIR=/tmp/fluxout
mkdir -p "$STATE_DIR" "$FLUX_OUTPUT_DIR" "$run"

die() {
  echo "flux: $1" >&2
  exit 1
}

# The image's own programs come first.
export PATH=$PATH:$view/bin
# The view links into /opt/software, where the software was when it was built.
cp -R "$flux/software/." /opt/software/ || die "the software cannot be copied to /opt/software"

python=
for found in "$view"/bin/python3.*; do
  [[ $found =~ /python3\.[0-9]+$ ]] && python=$found
done
[[ -n $python ]] || die "no python3 in $view/bin"
ln -sf "$python" "$view/bin/python3"
export PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$view/lib/$(basename "$python")/site-packages
export FLUX_RC_EXTRA=$view/etc/flux/rc1.d

# For people who come in with a shell: the scheduler with Fluxion's modules, and the way to the running instance.
cat > "$flux/load-fluxion.sh" <<'HELPER'
flux module remove sched-simple
flux module load sched-fluxion-resource
flux module load sched-fluxion-qmanager
HELPER
cat > "$flux/flux-view.sh" <<HELPER
export PATH=\$PATH:$view/bin
export PYTHONPATH=$PYTHONPATH
export FLUX_RC_EXTRA=$FLUX_RC_EXTRA
export FLUX_URI=local://$run/local
HELPER

# A broker refuses a certificate that others may read, or that is another user's.
cert=$etc/curve/curve.cert
cp -f /curve/curve.cert "$cert" && chmod go-rwx "$cert" && chown "$(id -u)" "$cert" || die "no certificate at $cert"
flux R encode --hosts="$hosts" "${resources[@]}" > "$etc/flux/system/R" || die "the resources cannot be encoded"

broker=(
  --config-path="$etc/flux/config"
  -Scron.directory="$etc/flux/system/cron.d"
  -Stbon.fanout=256
  -Srundir="$run"
  -Sstatedir="$STATE_DIR"
  -Slocal-uri="local://$run/local"
  -Slog-stderr-level=0
  -Slog-stderr-mode=local
)
options=()
for one in "${broker[@]}"; do
  options+=(-o "$one")
done

status=0
if [[ $(hostname) == "$lead" ]]; then
  if (( ${#program[@]} == 0 )); then
    flux broker "${broker[@]}" || status=$?
  else
    flux start "${options[@]}" flux run "${run_options[@]}" "${program[@]}" || status=$?
  fi
else
  # The first host may come later, or come again.
  until flux start "${options[@]}"; do
    sleep 15
  done
fi
touch "$flux/flux-operator-complete.txt"
# The pod ends as the program did.
exit "$status"
