#!/bin/sh
# Sends a query file to a Ray cluster, where it becomes a job that stays: `gapless run --detach`.
#
#     RAY_API_SERVER_ADDRESS=http://head:8265 sh examples/runtime/ray_job_submit.sh talkers.py talkers
#
# The nodes have gapless installed, and see /shared: journals, and the job's directory. What is
# submitted runs on a node of the cluster, so its address there is `auto`. Set RAY_AUTH_MODE=token,
# and the cluster's token, where it demands one.
set -eu

query=$1
name=$2
shared=${SHARED:-/shared}

ray job submit --working-dir "$(dirname "$query")" -- \
    gapless run "$(basename "$query")" --journal "$shared/data/netflow" \
    --dir "$shared/jobs/$name" --name "$name" --replicas 3 --mergers 2 --address auto --detach

ray job submit -- gapless status "$name" --address auto
