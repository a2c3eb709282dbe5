#!/usr/bin/env python3
"""A launcher for gateway-conformance: starts extender-gateway for a document of the suite.

    gateway-conformance --launcher tests/gateways/examples/launch.py target/release/extender-gateway
"""

import json
import pathlib
import signal
import subprocess
import sys

program, document = sys.argv[1], pathlib.Path(sys.argv[2])
needs = json.loads(document.read_text())
file = needs["nodes"].get("file")
configuration = {
    "apiVersion": "extender-gateway.io/v1alpha1",
    "kind": "GatewayConfiguration",
    "extender": {"address": "127.0.0.1:0"},
    "metrics": {"address": "127.0.0.1:0"},
    "admin": {"address": "127.0.0.1:0"},
    "timeouts": {"decision": needs["timeout"], "bind": needs["timeout"]},
    "cluster": {"name": needs["cluster"]},
    "exempt": {"namespaces": []},
    "nodes": {"source": "File", "file": file} if file else {"source": "Request"},
    # A backend of the document has the fields of one in this gateway's configuration.
    "backends": needs["backends"],
}
if "kubeconfig" in needs:
    configuration["cluster"]["kubeconfig"] = needs["kubeconfig"]
    configuration["binder"] = "BuiltIn"
# JSON is YAML.
written = document.with_suffix(".yaml")
written.write_text(json.dumps(configuration))

gateway = subprocess.Popen([program, "serve", "--config", written], stdout=subprocess.PIPE, text=True)
signal.signal(signal.SIGTERM, lambda *_: gateway.terminate())
for line in gateway.stdout:
    if line.startswith("extender listening on "):
        print("http://" + line.split()[-1], flush=True)
sys.exit(gateway.wait())
