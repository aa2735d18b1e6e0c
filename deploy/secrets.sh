#!/usr/bin/env bash
# Makes what compose.yaml and deploy/kubernetes read as secrets: passwords, tokens, and the certificates of the engine's
# channel, in a folder that its owner alone can enter. Needs `purse`. What is there already stays as it is.
#
#   deploy/secrets.sh [FOLDER] [HOST-OF-THE-DATABASE]
set -euo pipefail
folder=${1:-"$(dirname "$0")/secrets"} host=${2:-database}
mkdir -p "$folder"
chmod 0700 "$folder"
fresh() { [ -e "$folder/$1" ] || head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$folder/$1"; }
fresh postgres-password
fresh PURSE_BOOTSTRAP_TOKEN
fresh PURSE_METRICS_TOKEN
[ -e "$folder/PURSE_DATABASE_URL" ] ||
  printf 'postgresql://purse:%s@%s/purse' "$(cat "$folder/postgres-password")" "$host" >"$folder/PURSE_DATABASE_URL"
for name in server scheduler worker; do
  [ -e "$folder/$name.pem" ] || purse worker certificate --out "$folder" "$name"
done
chmod 0644 "$folder"/*        # an engine mounts them one by one, for a user of another number
chmod 0600 "$folder/ca-key.pem" # this one is for no container
