"""Write policies for the extender gateway in Python.

    class NoArm(Policy):
        def info(self) -> Info:
            reads = Reads()
            reads.node_label("kubernetes.io/arch")
            return Info("no-arm", "1.0.0").filters(Verb.per_node().pure().reads(reads))

        def filter(self, pod: Pod, node: Node) -> Verdict:
            if node.label("kubernetes.io/arch") == "arm64":
                return Verdict.reject("arm64 nodes are not in use yet")
            return Verdict.accept()

    run(NoArm())

`extender_policy.testing` tries a policy without a server, and `extender_policy.trace` adds to the trace of a call.
"""

from . import trace as trace
from ._backend import Backend as Backend
from ._backend import Configured as Configured
from ._backend import Replaceable as Replaceable
from ._backend import configured as configured
from ._run import argument_parser as argument_parser
from ._run import exit_with as exit_with
from ._run import options_from as options_from
from ._run import run as run
from ._run import run_async as run_async
from ._run import serve as serve
from ._run import serve_async as serve_async
from ._tls import Tls as Tls
from .args import Args as Args
from .args import Between as Between
from .args import Sized as Sized
from .async_server import AsyncServer as AsyncServer
from .candidate import BindAsk as BindAsk
from .candidate import Candidate as Candidate
from .candidate import Victim as Victim
from .changes import ChangedPart as ChangedPart
from .changes import NodeChange as NodeChange
from .changes import PodChange as PodChange
from .counts import PodCount as PodCount
from .counts import PodsLike as PodsLike
from .errors import ArgsError as ArgsError
from .errors import BindFailed as BindFailed
from .errors import CannotAnswer as CannotAnswer
from .errors import DeclarationError as DeclarationError
from .errors import InvalidParameter as InvalidParameter
from .errors import NotFound as NotFound
from .errors import NotReady as NotReady
from .errors import ServeError as ServeError
from .errors import UndeclaredRead as UndeclaredRead
from .info import Hook as Hook
from .info import Info as Info
from .info import Normalization as Normalization
from .info import Scale as Scale
from .info import Verb as Verb
from .info import View as View
from .introspection import IntrospectAsk as IntrospectAsk
from .node import Node as Node
from .node import Nodes as Nodes
from .options import Address as Address
from .options import Options as Options
from .pod import Domains as Domains
from .pod import Pod as Pod
from .policy import Policy as Policy
from .reads import NodeKey as NodeKey
from .reads import NodePart as NodePart
from .reads import NodePrefix as NodePrefix
from .reads import PodKey as PodKey
from .reads import PodPart as PodPart
from .reads import PodPrefix as PodPrefix
from .reads import PodsBy as PodsBy
from .reads import PodsKey as PodsKey
from .reads import Reads as Reads
from .reads import TopologyKey as TopologyKey
from .resources import HoldUser as HoldUser
from .resources import NodeAffinity as NodeAffinity
from .resources import NodeSelectorRequirement as NodeSelectorRequirement
from .resources import NodeSelectorTerm as NodeSelectorTerm
from .resources import NodeUsage as NodeUsage
from .resources import NonZero as NonZero
from .resources import OwnerReference as OwnerReference
from .resources import PreferredSchedulingTerm as PreferredSchedulingTerm
from .resources import Resources as Resources
from .resources import Taint as Taint
from .resources import Toleration as Toleration
from .resources import Volume as Volume
from .server import Server as Server
from .verdict import Bind as Bind
from .verdict import Eviction as Eviction
from .verdict import Verdict as Verdict
from .version import VERSION

__version__ = VERSION
