#!/bin/sh
# Holds the dashboard to Grafana's own types, by the compiler: `make dashboard`. Needs npm; keeps what it fetches in target/grafana.
set -eu
cd "$(dirname "$0")/.."
home="target/grafana"
mkdir -p "$home"
[ -e "$home/node_modules/.bin/tsc" ] || {
    printf '{"private": true}\n' > "$home/package.json"
    npm install --silent --no-audit --no-fund --prefix "$home" @grafana/schema@13.2.3 typescript@5.9.3
}
{
    echo 'import type { Dashboard } from "@grafana/schema";'
    printf 'const dashboard: Dashboard = '
    # A literal is no member of an enum to the compiler, though the same text.
    sed 's/"absolute"/"absolute" as any/' deploy/grafana/outboxd.json
    echo ';'
    echo 'export default dashboard;'
} > "$home/dashboard.ts"
cd "$home"
node_modules/.bin/tsc --noEmit --strict --skipLibCheck --moduleResolution bundler --module esnext dashboard.ts
echo "deploy/grafana/outboxd.json is a dashboard"
