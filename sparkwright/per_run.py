"""What the machines of one pyinfra run share: made once, by whichever asks first.

pyinfra calls us for each machine, in greenlets, and has no place for this. It is kept with the
run's inventory and not in our modules: two runs in one process have nothing in common.
`pyinfra.state` stands for the state of whichever run is on; the inventory it hands out is real.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from gevent.event import AsyncResult

T = TypeVar("T")
ATTRIBUTE: Final = "_sparkwright"


def of(state: Any, make: Callable[[Any], T]) -> T:
    """The run's value.

    + make: function from a state to the value, and the name of the value as well
    """
    kept = _kept(state)
    if make not in kept:
        kept[make] = make(state)
    value: T = kept[make]
    return value


def known(state: Any, make: Callable[[Any], T]) -> T | None:
    """The run's value, if anybody has asked for it; None as well where no run is on."""
    if getattr(state, "inventory", None) is None:
        return None
    value: T | None = _kept(state).get(make)
    return value


def _kept(state: Any) -> dict[Any, Any]:
    values: dict[Any, Any] = vars(state.inventory).setdefault(ATTRIBUTE, {})
    return values


class Once(Generic[T]):
    """A result that whichever greenlet comes first works out, while the others wait for it."""

    def __init__(self) -> None:
        self._result: AsyncResult[T] | None = None

    def get(self, work: Callable[[], T]) -> T:
        """The result of `work`, or what it raised, for everyone who asks."""
        if self._result is None:
            self._result = AsyncResult()
            try:
                self._result.set(work())
            except Exception as error:  # the waiting greenlets must not wait for ever
                self._result.set_exception(error)
        found: T = self._result.get()  # type: ignore[assignment]  # None only after a time limit
        return found
