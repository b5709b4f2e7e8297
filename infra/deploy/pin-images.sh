#!/bin/sh
# Pins every image of the compose files to its current digest, in infra/deploy/.env, which compose reads
# automatically; its other lines stay. Needs docker with buildx. Run it again to update the images.
set -eu
cd "$(dirname "$0")"
{
  grep -v '^[A-Z]*_IMAGE=' .env 2>/dev/null || :
  grep -oh '\${[A-Z]*_IMAGE:-[^}]*}' compose.yaml compose.cluster.yaml | sort -u | tr -d '${}' |
    while IFS= read -r variable; do
      image=${variable#*:-}
      digest=$(docker buildx imagetools inspect "$image" --format '{{.Manifest.Digest}}')
      [ -n "$digest" ] || exit 1
      echo "${variable%%:-*}=$image@$digest"
    done
} > .env.new
mv .env.new .env
cat .env
