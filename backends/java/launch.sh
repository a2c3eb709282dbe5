#!/bin/sh
# Starts an example; made by `make build`. JAVA_OPTS has options of the Java virtual machine.
here=$(dirname "$(readlink -f "$0")")
target="$here/../examples/target"
exec java ${JAVA_OPTS:-} -cp "$target/classes:$target/lib/*" io.extendergateway.examples.@CLASS@ "$@"
