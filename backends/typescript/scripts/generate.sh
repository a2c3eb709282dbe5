#!/bin/sh
# Writes the generated code into a folder: messages, services, and the descriptors that reflection serves.
# usage: generate.sh FOLDER
set -eu
cd "$(dirname "$0")/.."
out=$1
buf=node_modules/.bin/buf
sed "s#out: src/gen#out: $out#" buf.gen.yaml >buf.gen.tmp.yaml
trap 'rm -f buf.gen.tmp.yaml' EXIT
"$buf" generate --template buf.gen.tmp.yaml ../../proto
{
    echo '// The descriptors of proto/extender/policy/v1alpha1, as a FileDescriptorSet in base64. Generated. DO NOT EDIT.'
    echo
    echo '/* eslint-disable */'
    printf 'export const DESCRIPTORS = "'
    "$buf" build --exclude-source-info -o - ../../proto | base64 -w 0
    echo '";'
} >"$out/descriptors.ts"
