"""What policies raise, and what callers of the SDK get."""

from __future__ import annotations

from collections.abc import Iterable


class ArgsError(ValueError):
    """Why arguments are rejected. The text reaches the operator: it names the mistake and what is expected."""


class NotReady(Exception):
    """Why the policy cannot decide now, whichever pod it is asked about: one sentence for operators.

    The call fails with UNAVAILABLE, and the policy is called again for the next pod.
    """


class CannotAnswer(Exception):
    """Why the policy cannot answer about this pod, although it can about others: one sentence for operators.

    Any method about a pod raises it. The call fails with ABORTED, which says nothing about the calls about other pods,
    however long it took.
    """


class NotFound(Exception):
    """There is no such object at a path that the policy shows: one sentence for the person who asked (NOT_FOUND)."""


class InvalidParameter(ValueError):
    """A parameter of a path, or its query, is invalid: one sentence for the person who asked (INVALID_ARGUMENT)."""


class BindFailed(Exception):
    """Why a pod could not be bound: one sentence for operators.

    The gateway finds out whether the pod was bound nevertheless, and otherwise applies the failure policy that the
    operator chose.
    """


class DeclarationError(ValueError):
    """The mistakes of an `Info` that no gateway can find, such as a declared verb without a method: a sentence each.

    The others, such as a name that is too long, are named by the gateway and by policy-conformance.
    """

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__(f"invalid policy info: {'; '.join(self.mistakes)}")


class UndeclaredRead(LookupError):
    """The policy reads something that its verb does not declare, or a pure verb reads the id of the call.

    There is no value that could be mistaken for that of an object without the label: a policy that goes on with one
    might bind a pod or make a reservation. A test fails with this text, and so does a call (INTERNAL).
    """


class ServeError(Exception):
    """Why a policy cannot be served: the text names what is wrong and how to mend it."""
