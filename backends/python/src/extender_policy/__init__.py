"""Write policies for the extender gateway in Python.

    class NoArm(Policy):
        def info(self) -> Info:
            reads = Reads()
            reads.node_label("kubernetes.io/arch")
            return Info("no-arm", "1.0.0").filters(Verb.per_node().pure().reads(reads))

        def filter(self, pod: Pod, node: Node) -> Verdict:
            if node.label("kubernetes.io/arch") == "arm64":
                return Verdict.reject("arm64 nodes are not in use yet", unresolvable=True)
            return Verdict.accept()

    run(NoArm())

`extender_policy.testing` tries a policy without a server, and `extender_policy.trace` adds to the trace of a call.
"""

from . import trace
from ._backend import Backend, Configured, Replaceable, configured
from ._calls import CallFilter
from ._run import argument_parser, exit_with, options_from, run, run_async, serve, serve_async
from ._tls import Tls
from .args import Args, Between, Sized
from .async_server import AsyncServer
from .candidate import BindAsk, Candidate, Victim
from .changes import ChangedPart, NodeChange, PodChange
from .counts import PodCount, PodsLike
from .errors import (
    ArgsError,
    BindFailed,
    CannotAnswer,
    DeclarationError,
    InvalidParameter,
    NotFound,
    NotReady,
    ServeError,
    UndeclaredRead,
)
from .info import Hook, Info, Normalization, Scale, Verb
from .introspection import IntrospectAsk
from .node import Node, Nodes
from .options import Address, Options
from .outcome import Outcome, OutcomeKind
from .pod import Domains, Pod
from .policy import Policy
from .reads import (
    NodeKey,
    NodePart,
    NodePrefix,
    PodKey,
    PodPart,
    PodPrefix,
    PodsBy,
    PodsKey,
    Reads,
    TopologyKey,
)
from .resources import (
    Container,
    HoldUser,
    HostPort,
    LabelSelector,
    NodeAddress,
    NodeAffinity,
    NodeImage,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeUsage,
    NonZero,
    OwnerReference,
    PodAffinity,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    ResourceClaim,
    Resources,
    SystemInfo,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    Volume,
    WeightedPodAffinityTerm,
)
from .server import Server
from .verdict import NO_OPINION, Bind, Eviction, Verdict
from .version import VERSION

__version__ = VERSION

__all__ = [
    "NO_OPINION",
    "Address",
    "Args",
    "ArgsError",
    "AsyncServer",
    "Backend",
    "Between",
    "Bind",
    "BindAsk",
    "BindFailed",
    "CallFilter",
    "Candidate",
    "CannotAnswer",
    "ChangedPart",
    "Configured",
    "Container",
    "DeclarationError",
    "Domains",
    "Eviction",
    "HoldUser",
    "Hook",
    "HostPort",
    "Info",
    "IntrospectAsk",
    "InvalidParameter",
    "LabelSelector",
    "Node",
    "NodeAddress",
    "NodeAffinity",
    "NodeChange",
    "NodeImage",
    "NodeKey",
    "NodePart",
    "NodePrefix",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "NodeUsage",
    "Nodes",
    "NonZero",
    "Normalization",
    "NotFound",
    "NotReady",
    "Options",
    "Outcome",
    "OutcomeKind",
    "OwnerReference",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodChange",
    "PodCount",
    "PodKey",
    "PodPart",
    "PodPrefix",
    "PodsBy",
    "PodsKey",
    "PodsLike",
    "Policy",
    "PreferredSchedulingTerm",
    "Reads",
    "Replaceable",
    "ResourceClaim",
    "Resources",
    "Scale",
    "ServeError",
    "Server",
    "Sized",
    "SystemInfo",
    "Taint",
    "Tls",
    "Toleration",
    "TopologyKey",
    "TopologySpreadConstraint",
    "UndeclaredRead",
    "Verb",
    "Verdict",
    "Victim",
    "Volume",
    "WeightedPodAffinityTerm",
    "argument_parser",
    "configured",
    "exit_with",
    "options_from",
    "run",
    "run_async",
    "serve",
    "serve_async",
    "trace",
]
