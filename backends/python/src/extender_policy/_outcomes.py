"""From an encoded report of outcomes to the encoded answer, without sockets."""

from __future__ import annotations

import inspect

from grpc import StatusCode

from . import _answer
from ._api.v1beta1 import outcomes_pb2
from ._backend import Backend
from ._errors import CallError, call_error, missing
from ._question import check_purpose
from .outcome import Outcome, OutcomeKind
from .policy import Policy


async def report(backend: Backend, encoded: bytes) -> outcomes_pb2.ReportResponse:
    """Tells the policy all outcomes, or none of them if the request is invalid.

    Also if the policy is not ready: what it has reserved is to be given back nevertheless.
    """
    request = _answer.decoded_small(outcomes_pb2.ReportRequest, encoded)
    prepared = backend._latest(_answer._versions(backend, request))
    if not prepared.declaration.observes_outcomes:
        raise CallError(
            StatusCode.UNIMPLEMENTED,
            "this policy does not observe outcomes; its GetInfo does not list OutcomeService, declare it with "
            "Info.observes_outcomes",
        )
    check_purpose(request.call.purpose, has_side_effects=False)
    if not request.outcomes:
        raise missing("outcomes")
    for outcome in [_checked(position, given) for position, given in enumerate(request.outcomes)]:
        await _observed(prepared.policy, outcome)
    return outcomes_pb2.ReportResponse()


def _checked(position: int, given: outcomes_pb2.Outcome) -> Outcome:
    for field in ("call", "namespace", "name", "uid", "kind"):
        if not getattr(given, field):
            raise missing(f"outcomes[{position}].{field}", "every outcome has it")
    # One that a later version of the gateway knows is as good as superseded.
    kind = OutcomeKind(given.kind) if int(given.kind) in list(OutcomeKind) else OutcomeKind.SUPERSEDED
    is_bound = kind is OutcomeKind.BOUND
    if is_bound and not given.node:
        raise missing(f"outcomes[{position}].node", "every pod that is bound has it")
    return Outcome(given.call, given.namespace, given.name, given.uid, kind, given.node if is_bound else None)


async def _observed(policy: Policy, outcome: Outcome) -> None:
    try:
        answer = policy.observe(outcome)
        if inspect.isawaitable(answer):
            await answer
    except (Exception, SystemExit) as raised:
        # The method of the service has another name than that of the policy.
        error = call_error("observe", raised)
        raise error from error.__cause__
