#!/usr/bin/env bash
# Builds the Dockerfile and runs the image, without a container engine: for Debian, as root.
#
# The base image is made from Debian's packages (mmdebstrap), and the build runs in a chroot (buildah). The image runs in
# namespaces of its own, with a read-only root file system, /tmp in memory, a volume on /data, no network but loopback,
# and its own user, command and health check. At the end, `purse demo` runs inside it, on the image's workers. The
# script installs the packages of Debian that are missing, and removes everything else.
#
#   KEEP=image.tar docker/build-without-engine.sh    also writes the image, as an archive for `docker load`
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '== %s\n' "$*"; }
[ "$(id -u)" = 0 ] || { echo "$0: Root is needed for chroots and mounts. Run it as root." >&2; exit 1; }

missing=()
for tool in buildah mmdebstrap ip:iproute2 unshare:util-linux python3; do
  command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
done
if [ ${#missing[@]} -gt 0 ]; then
  say "installing ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
fi

work=$(mktemp -d)
mkdir "$work/secrets" "$work/volume"
builder() { buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }
trap 'builder rm --all >/dev/null 2>&1 || true; rm -rf --one-file-system "$work"' EXIT

say "base: Debian bookworm with Python and nothing else"
mmdebstrap --quiet --variant=minbase \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/info/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  --include=python3,python3-venv,ca-certificates bookworm "$work/base.tar"
base=$(builder from scratch)
builder add --quiet "$base" "$work/base.tar" / >/dev/null
builder commit --quiet "$base" privy-purse-base >/dev/null
builder rm "$base" >/dev/null
rm "$work/base.tar"

# The build uses this machine's address of the package registry and its certificates. The image does not contain them.
secrets="$work/secrets"
authority=${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}
: >"$secrets/ca.pem"
[ ! -f "$authority" ] || cp "$authority" "$secrets/ca.pem"
{
  echo "[global]"
  [ ! -s "$secrets/ca.pem" ] || echo "cert = /run/secrets/ca.pem"
  index=${PIP_INDEX_URL:-$(python3 -m pip config get global.index-url 2>/dev/null || true)}
  [ -z "$index" ] || echo "index-url = $index"
} >"$secrets/pip.conf"

say "image"
builder build --isolation chroot --network host --format docker --quiet \
  --build-arg BASE=localhost/privy-purse-base \
  --secret "id=pip.conf,src=$secrets/pip.conf" --secret "id=ca.pem,src=$secrets/ca.pem" \
  --tag privy-purse . >/dev/null
archive=${KEEP:-$work/image.tar}
builder push --quiet privy-purse "docker-archive:$archive:privy-purse:latest"
builder images --format '{{.Name}} {{.Size}}' |
  sed -n "s#^localhost/privy-purse \(.*\)#   \1 unpacked, $(gzip -c "$archive" | wc -c | numfmt --to=si)B packed, as a registry keeps it#p"

say "run: read-only root, /tmp in memory, a volume on /data, its own network"
container=$(builder from privy-purse)
root=$(builder mount "$container")
say "its largest parts, in MB"
(cd "$root" && du -sm usr opt/venv/lib/python3*/site-packages/* | sort -rn | sed -n 1,9p)
builder inspect --type image privy-purse >"$work/image.json"
chmod 0700 "$work/volume"
python3 docker/as_engine.py "$work/image.json" "$root" "$work/volume"
say "the image works"
