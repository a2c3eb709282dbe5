"""The source of the policy that answers a call."""

from __future__ import annotations

import copy
import inspect
import threading
from collections.abc import Callable

from grpc import StatusCode

from ._api.v1beta1 import policy_pb2
from ._declaration import Declaration, Terms
from ._errors import CallError
from ._named import NamedArgs, Recent
from ._program import with_revision
from ._written import unwritten
from .args import Args
from .info import DECLARED_WITH, Info
from .policy import METHODS, Policy

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
    def is_ready(self) -> bool:
        """Whether the policy can decide now."""
        try:
            self.policy.ready()
        except Exception:
            return False
        return True

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
                others = [version for version in self._all if version.declaration.digests != latest.declaration.digests]
                self._all = (latest, *others[:MAX_EARLIER])

    def declaring(self, verb: str, reads: bytes) -> Prepared | None:
        """The latest version whose verb has the declaration of this digest."""
        return next((known for known in self._all if known.declaration.digests.get(verb) == reads), None)


class Backend:
    """What `serve` serves: one policy that takes no args. A policy converts into a backend."""

    _refusal = ""
    """Why the backend must not bind: other machines can call it without a certificate."""

    def __init__(self, policy: Policy) -> None:
        """Raises `DeclarationError` with the mistakes of the policy's `Info` that no gateway can find."""
        self._fixed = Versions(policy)
        self._recent = Recent()

    @staticmethod
    def _of(versions: Versions) -> Backend:
        backend = Backend.__new__(Backend)
        backend._fixed = versions
        backend._recent = Recent()
        return backend

    def _versions(self, args: NamedArgs) -> Versions:
        """The policy for these args."""
        known = self._recent.find(args.digest)
        if known is not None:
            return known
        if args.encoded is None:
            raise CallError(
                StatusCode.FAILED_PRECONDITION,
                "the args of this call are not known here; send them",
                reason="ARGS_UNKNOWN",
            )
        return self._recent.keep(args.digest, self._made(Args(args.encoded)), len(args.encoded))

    def _made(self, args: Args) -> Versions:
        """The policy for args that are not known yet."""
        args.reject_any()
        return self._fixed

    def _latest(self, versions: Versions) -> Prepared:
        latest = versions.latest()
        # Whether a policy that is built from args binds is known when it is called.
        if self._refusal and latest.binds:
            raise CallError(StatusCode.FAILED_PRECONDITION, self._refusal)
        return latest

    def _policy_for(self, args: bytes) -> Prepared:
        """The policy for a request that brings these args."""
        return self._latest(self._versions(NamedArgs.whole(args)))

    def _policy_reading(self, versions: Versions, call: policy_pb2.Call, verb: str) -> tuple[Prepared, Terms]:
        """Of the policy for the args of this call, a version that can read the request."""
        latest = self._latest(versions)
        declared = latest.declaration.digests.get(verb)
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
                "call.reads is not the SHA-256 of what this policy now declares to read; repeat the handshake",
                reason="OTHER_READS",
            )
        return known, known.declaration.terms[verb]

    def _known(self) -> Prepared | None:
        """The policy, if it is known before args come."""
        return self._fixed.newest()

    def _is_ready(self) -> bool:
        """Whether all policies in use can decide now."""
        try:
            in_use = [versions.latest() for versions in self._recent.all()]
        except Exception:
            return False
        return all(prepared.is_ready for prepared in in_use or filter(None, [self._known()]))

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
        self._recent = Recent()

    def _made(self, args: Args) -> Versions:
        return Versions(self._build(args))

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
