"""The source of the policy that answers a call."""

from __future__ import annotations

import inspect
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator

from grpc import StatusCode

from ._api.v1alpha1 import policy_pb2
from ._declaration import Declaration, Terms
from ._errors import CallError, failed, invalid
from ._written import unwritten
from .args import Args
from .errors import ArgsError, DeclarationError
from .info import DECLARED_WITH, Info
from .policy import METHODS, Policy

LOG = logging.getLogger("extender_policy")

MAX_POLICIES = 16
"""With more configured policies than this, some are rebuilt now and then; they still work."""
MAX_BYTES = 2 << 20
"""The most bytes of args that are kept. A policy built from them can be tens of times as large."""
MAX_EARLIER = 16
"""The earlier versions that are kept.

Gateways repeat the handshake within a second, so there is rarely more than one in use."""


class Prepared:
    """A policy with its declaration, which belong together: a call never mixes two policies."""

    def __init__(self, policy: Policy, info: Info | None = None) -> None:
        if not isinstance(policy, Policy):
            raise TypeError(f"expected a Policy, got {policy!r}")
        self.policy = policy
        info = policy.info() if info is None else info
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


class Backend:
    """What `serve` serves: one policy that takes no args. A policy converts into a backend."""

    def __init__(self, policy: Policy) -> None:
        """Raises `DeclarationError` with the mistakes of the policy's `Info` that no gateway can find."""
        self._prepared = Prepared(policy)

    def _policy_for(self, args: bytes) -> Prepared:
        """The policy for a call with these args."""
        reject_any(args)
        return self._prepared

    def _policy_reading(self, call: policy_pb2.Call, verb: str) -> tuple[Prepared, Terms]:
        """The policy for this call: the one for its args, in a version that can read the request."""
        latest = self._policy_for(call.args)
        terms = latest.declaration.terms.get(verb)
        if terms is not None and terms.reads_id == call.reads:
            return latest, terms
        if terms is None:
            raise CallError(
                StatusCode.UNIMPLEMENTED,
                f"this policy does not serve {verb}; its GetInfo does not list it, declare it with "
                f"{DECLARED_WITH[verb]}",
            )
        for earlier in self._earlier():
            known = earlier.declaration.terms.get(verb)
            if known is not None and known.reads_id == call.reads:
                return earlier, known
        raise CallError(
            StatusCode.FAILED_PRECONDITION,
            f"call.reads is {call.reads}, and this policy now declares reads with the id {terms.reads_id}; "
            "repeat the handshake",
        )

    def _earlier(self) -> Iterator[Prepared]:
        """Earlier versions that may still be asked for."""
        return iter(())

    def _known(self) -> Iterator[Prepared]:
        """The policies that are known before args come."""
        yield self._prepared


class Replaceable(Backend):
    """A policy that takes no args and is replaced while running, such as one made from a rule file.

    If the new policy declares other `Reads`, the old one still answers the calls that were made for it, until the
    gateway has repeated the handshake; so do the 16 latest of several old ones.
    """

    def __init__(self, policy: Policy) -> None:
        """Raises `DeclarationError` with the mistakes of the policy's `Info` that no gateway can find."""
        super().__init__(policy)
        self._versions: tuple[Prepared, ...] = (self._prepared,)
        self._lock = threading.Lock()

    def replace(self, policy: Policy) -> None:
        """From now on this policy answers; calls in progress finish with the old one.

        Raises `DeclarationError` for mistakes that no gateway can find; then the old one stays. A declaration that the
        gateway rejects replaces the old one, too: check it with policy-conformance before.
        """
        latest = Prepared(policy)
        with self._lock:
            # An earlier version that declares the same is never needed again.
            ids = latest.declaration.ids
            others = [version for version in self._versions if version.declaration.ids != ids]
            self._versions = (latest, *others[:MAX_EARLIER])
            self._prepared = latest

    def _earlier(self) -> Iterator[Prepared]:
        return iter(self._versions[1:])


class Configured(Backend):
    """A policy built from the operator's args, so that one process serves several configured policies."""

    def __init__(self, build: Callable[[Args], Policy], *, name: str = "") -> None:
        """`build` raises `ArgsError` for args that it does not accept.

        It is called once for each distinct args, not once a call (the last 16 results are kept); without args it sees
        an empty object. `name` is the policy's name in the traces, before the first call.
        """
        self._build = build
        self._name = name
        self._recent: OrderedDict[bytes, Prepared] = OrderedDict()
        self._repeated: set[bytes] = set()
        """The args that came more than once."""
        self._lock = threading.Lock()

    def _policy_for(self, args: bytes) -> Prepared:
        with self._lock:
            known = self._recent.get(args)
            if known is not None:
                self._recent.move_to_end(args)
                self._repeated.add(args)
                return known
        prepared = self._prepare(args)
        with self._lock:
            if args in self._recent:
                # Of two threads that build the same, one policy is kept.
                return self._recent[args]
            while self._recent and not self._has_room(len(args)):
                self._evict()
            self._recent[args] = prepared
        return prepared

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

    def _prepare(self, args: bytes) -> Prepared:
        try:
            return Prepared(self._build(Args(args)))
        except ArgsError as error:
            raise invalid(str(error)) from error
        except DeclarationError as error:
            raise failed(str(error)) from error

    def _known(self) -> Iterator[Prepared]:
        return iter(())


class WithArgs(Backend):
    """The policy that another backend has for some args, for any args."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared

    def _policy_for(self, args: bytes) -> Prepared:
        return self._prepared


class Exposed(Backend):
    """A backend that strangers can call, for whom it must not bind.

    Whether a policy that is built from args binds is known when it is called.
    """

    def __init__(self, backend: Backend, refusal: str) -> None:
        self._backend = backend
        self._refusal = refusal

    def _policy_for(self, args: bytes) -> Prepared:
        prepared = self._backend._policy_for(args)
        if prepared.binds:
            raise CallError(StatusCode.FAILED_PRECONDITION, self._refusal)
        return prepared

    def _earlier(self) -> Iterator[Prepared]:
        return self._backend._earlier()

    def _known(self) -> Iterator[Prepared]:
        return self._backend._known()


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


def reject_any(args: bytes) -> None:
    """For policies that take no arguments."""
    if args in (b"", b"{}"):
        return
    try:
        Args(args).reject_any()
    except ArgsError as error:
        raise invalid(str(error)) from error
