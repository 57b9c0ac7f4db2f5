#!/usr/bin/env bash
# Deploys a flow set, an array of nodes, to flowgate: deploy.sh flows.json
#   FLOWGATE        its address, such as https://flows.example.org:8443
#   FLOWGATE_TOKEN  a service token with flows.read and flows.write
#   FLOWGATE_CA     optional: a PEM file with the certificate to trust
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# curl reads the token from a file: arguments are visible to other users of the machine.
printf 'Authorization: Bearer %s\n' "$FLOWGATE_TOKEN" > "$work/headers"

request() {
    curl --silent --show-error --max-time 60 ${FLOWGATE_CA:+--cacert "$FLOWGATE_CA"} \
        --header "@$work/headers" --header 'Service-API-Version: v2' "$@"
}

rev=$(request --fail "$FLOWGATE/flows" | sed 's/.*"rev":"\([^"]*\)".*/\1/')
printf '{"flows": %s, "rev": "%s"}' "$(cat "$1")" "$rev" > "$work/submission.json"

status=$(request --output "$work/response" --write-out '%{http_code}' --header 'Content-Type: application/json' \
    --header 'Service-Deployment-Type: full' --data-binary "@$work/submission.json" "$FLOWGATE/flows")
if [ "$status" != 200 ]; then
    cat "$work/response" >&2
    printf '\nrefused with status %s\n' "$status" >&2
    exit 1
fi
sed 's/.*"rev":"\([^"]*\)".*/deployed \1/' "$work/response"
