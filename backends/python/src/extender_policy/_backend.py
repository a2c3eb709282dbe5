"""The source of the policy that answers a call."""

from __future__ import annotations

import copy
import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable

from grpc import StatusCode

from ._api.v1beta1 import policy_pb2
from ._declaration import Declaration, Terms
from ._errors import CallError
from ._program import with_revision
from ._written import unwritten
from .args import Args
from .info import DECLARED_WITH, Info
from .policy import METHODS, Policy

MAX_POLICIES = 16
"""With more configured policies than this, some are rebuilt now and then; they still work."""
MAX_BYTES = 2 << 20
"""The most bytes of args that are kept. A policy built from them can be tens of times as large."""
MAX_EARLIER = 16
"""The earlier versions that are kept.

Gateways repeat the handshake within a second, so there is rarely more than one in use."""


class Prepared:
    """A policy with its declaration, which belong together: a call never mixes two policies."""

    def __init__(self, policy: Policy, declared: Callable[[Policy], Info] = lambda policy: policy.info()) -> None:
        if not isinstance(policy, Policy):
            raise TypeError(f"expected a Policy, got {policy!r}")
        self.policy = policy
        info = with_revision(declared(policy), policy)
        self.declaration = Declaration(info, unwritten(policy, info))
        functions = {name: getattr(policy, name) for name in METHODS}
        functions |= {f"the function of {path}": shown.show for path, shown in self.declaration.shown.items()}
        self.coroutines = frozenset(
            name for name, function in functions.items() if inspect.iscoroutinefunction(inspect.unwrap(function))
        )
        """The methods, and the functions of paths, that are coroutine functions."""

    @property
    def binds(self) -> bool:
        """Whether the policy declares the verb bind."""
        return "Bind" in self.declaration.terms


class Versions:
    """A policy that changes while running: a request is encoded for one declaration, and can be read with no other."""

    def __init__(self, policy: Policy, declared: Callable[[Policy], Info] = lambda policy: policy.info()) -> None:
        self._declared = declared
        self._lock = threading.Lock()
        self._all: tuple[Prepared, ...] = (Prepared(policy, declared),)
        """The latest one first. No two of them declare the same."""

    def newest(self) -> Prepared:
        """The latest version so far."""
        return self._all[0]

    def latest(self) -> Prepared:
        """The version that answers from now on."""
        asked = self.newest()
        current = asked.policy.current()
        if current is not asked.policy:
            self.replace(current, asked)
        return self.newest()

    def replace(self, policy: Policy, asked: Prepared | None = None) -> None:
        """With a mistake in the new declaration the old one stays, as does one that has replaced `asked` meanwhile."""
        latest = Prepared(policy, self._declared)
        with self._lock:
            if asked is None or asked is self.newest():
                others = [version for version in self._all if version.declaration.ids != latest.declaration.ids]
                self._all = (latest, *others[:MAX_EARLIER])

    def declaring(self, verb: str, reads_id: int) -> Prepared | None:
        """The latest version whose verb is declared with this."""
        return next((known for known in self._all if known.declaration.ids.get(verb) == reads_id), None)


class Backend:
    """What `serve` serves: one policy that takes no args. A policy converts into a backend."""

    _refusal = ""
    """Why the backend must not bind: other machines can call it without a certificate."""

    def __init__(self, policy: Policy) -> None:
        """Raises `DeclarationError` with the mistakes of the policy's `Info` that no gateway can find."""
        self._fixed = Versions(policy)

    @staticmethod
    def _of(versions: Versions) -> Backend:
        backend = Backend.__new__(Backend)
        backend._fixed = versions
        return backend

    def _versions(self, args: bytes) -> Versions:
        """The policy for these args."""
        if args not in (b"", b"{}"):
            Args(args).reject_any()
        return self._fixed

    def _latest(self, versions: Versions) -> Prepared:
        latest = versions.latest()
        # Whether a policy that is built from args binds is known when it is called.
        if self._refusal and latest.binds:
            raise CallError(StatusCode.FAILED_PRECONDITION, self._refusal)
        return latest

    def _policy_for(self, args: bytes) -> Prepared:
        """The policy for a call with these args."""
        return self._latest(self._versions(args))

    def _policy_reading(self, call: policy_pb2.Call, verb: str) -> tuple[Prepared, Terms]:
        """The policy for this call: the one for its args, in a version that can read the request."""
        versions = self._versions(call.args)
        latest = self._latest(versions)
        declared = latest.declaration.ids.get(verb)
        if declared is None:
            raise CallError(
                StatusCode.UNIMPLEMENTED,
                f"this policy does not serve {verb}; its GetInfo does not list it, declare it with "
                f"{DECLARED_WITH[verb]}",
            )
        known = latest if declared == call.reads else versions.declaring(verb, call.reads)
        if known is None:
            raise CallError(
                StatusCode.FAILED_PRECONDITION,
                f"call.reads is {call.reads}, and this policy now declares reads with the id {declared}; "
                "repeat the handshake",
                reason="OTHER_READS",
            )
        return known, known.declaration.terms[verb]

    def _known(self) -> Prepared | None:
        """The policy, if it is known before args come."""
        return self._fixed.newest()

    def _exposed(self, refusal: str) -> Backend:
        """The same backend where other machines can call it without a certificate: it must not bind."""
        exposed = copy.copy(self)
        exposed._refusal = refusal
        return exposed


class Replaceable(Backend):
    """A policy that takes no args and is replaced while running, such as one made from a rule file.

    If the new policy declares other `Reads`, the old one still answers the calls that were made for it, until the
    gateway has repeated the handshake; so do the 16 latest of several old ones.
    """

    def replace(self, policy: Policy) -> None:
        """From now on this policy answers; calls in progress finish with the old one.

        Raises `DeclarationError` for mistakes that no gateway can find; then the old one stays. A declaration that the
        gateway rejects replaces the old one, too: check it with policy-conformance before.
        """
        self._fixed.replace(policy)


class Configured(Backend):
    """A policy built from the operator's args, so that one process serves several configured policies."""

    def __init__(self, build: Callable[[Args], Policy], *, name: str = "") -> None:
        """`build` raises `ArgsError` for args that it does not accept.

        It is called once for each distinct args, not once a call (the last 16 results are kept); without args it sees
        an empty object. `name` is the policy's name in the traces, before the first call.
        """
        self._build = build
        self._name = name
        self._recent: OrderedDict[bytes, Versions] = OrderedDict()
        self._repeated: set[bytes] = set()
        """The args that came more than once."""
        self._lock = threading.Lock()

    def _versions(self, args: bytes) -> Versions:
        with self._lock:
            known = self._recent.get(args)
            if known is not None:
                self._recent.move_to_end(args)
                self._repeated.add(args)
                return known
        versions = Versions(self._build(Args(args)))
        with self._lock:
            if args in self._recent:
                # Of two threads that build the same, one policy is kept.
                return self._recent[args]
            while self._recent and not self._has_room(len(args)):
                self._evict()
            self._recent[args] = versions
        return versions

    def _has_room(self, size: int) -> bool:
        return len(self._recent) < MAX_POLICIES and sum(map(len, self._recent)) + size <= MAX_BYTES

    def _evict(self) -> None:
        """Removes the policy that was least recently used.

        Args that came once, as from a client that is not the gateway, go first: they must not displace those of every
        call.
        """
        once = (args for args in self._recent if args not in self._repeated)
        oldest = next(once, None)
        args, _ = self._recent.popitem(last=False) if oldest is None else (oldest, self._recent.pop(oldest))
        self._repeated.discard(args)

    def _known(self) -> None:
        return None


def backend_of(source: Backend | Policy) -> Backend:
    """A policy is a backend with one policy."""
    return source if isinstance(source, Backend) else Backend(source)


def configured(build: Callable[[Args], Policy], *, name: str = "") -> Configured:
    """A policy built from the operator's args; see `Configured`.

    @dataclass(frozen=True)
    class Drain:
        zone: str

    run(configured(lambda args: DrainPolicy(args.parse(Drain))))
    """
    return Configured(build, name=name)
