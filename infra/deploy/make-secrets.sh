#!/bin/sh
# Creates random passwords for the compose files, once, in infra/deploy/secrets (never committed).
set -eu
cd "$(dirname "$0")"
[ -e secrets ] && { echo "infra/deploy/secrets already exists, nothing changed"; exit 0; }
umask 077
mkdir secrets
random() { head -c 32 /dev/urandom | base64 | tr -d '/+=\n' | cut -c 1-40; }
nats=$(random)
clickhouse=$(random)
analyst=$(random)
printf '%s' "$nats" > secrets/nats-password
printf 'authorization { user: "fillstream", password: "%s" }\n' "$nats" > secrets/nats-auth.conf
printf 'http://default:%s@clickhouse:8123' "$clickhouse" > secrets/clickhouse-url
printf 'http://default:%s@clickhouse-1-1:8123' "$clickhouse" > secrets/clickhouse-cluster-url
printf '%s' "$analyst" > secrets/analyst-password
sha=$(printf '%s' "$analyst" | sha256sum | cut -d ' ' -f 1)
printf 'CLICKHOUSE_PASSWORD=%s\nANALYST_PASSWORD_SHA256=%s\n' "$clickhouse" "$sha" > secrets/clickhouse.env
# The containers run as other users, so the files are readable for all, but the directory is not.
chmod 644 secrets/*
chmod 700 secrets
echo "created infra/deploy/secrets; the analyst's password is in infra/deploy/secrets/analyst-password"
