"""The negotiator of an agent that leaves negmas' rarely used hooks alone, and the test for such agents.

negmas gives each agent a `ControlledSAONegotiator` for each partner and day. It looks every attribute up on the agent
first, which costs much, and lets an agent hear of a round's start, of a partner's joining and the like, which no agent
of the leagues does. `is_plain` says which agents do not; these get a `LeanNegotiator`.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from negmas.negotiators import Controller
from negmas.sao import SAONMI, ControlledSAONegotiator, SAOState
from scml.oneshot.agent import OneShotAgent

_HOOKS = (
    "before_join after_join join create_negotiator make_negotiator add_negotiator kill_negotiator call "
    "propose_ respond_ on_round_start on_round_end on_partner_proposal on_partner_response on_mechanism_error "
    "on_leave on_notification on_negotiator_entered on_negotiator_left on_negotiator_didnot_enter"
)  # what the stock mechanism may call on an agent besides propose, respond and the start and end of a negotiation
_BASE_HOOKS = {
    name: getattr(OneShotAgent, name, None) for name in _HOOKS.split()
}  # None: not there, so must stay not there


def is_plain(agent: OneShotAgent) -> bool:
    """True if the agent leaves every rarely used hook as negmas has it, so that nothing it does can miss the calls."""
    return all(getattr(type(agent), name, None) is base for name, base in _BASE_HOOKS.items())


class LeanNegotiator(ControlledSAONegotiator):  # type: ignore[misc]
    """The negotiator of a plain agent: it passes propose and respond on and is fast to make and to read.

    The stock class looks every attribute up on its controller first. Here ordinary lookup applies, and what is not
    found is looked up on the controller (`__getattr__`).
    """

    __getattribute__ = object.__getattribute__
    nmi = property(attrgetter("_nmi"))

    def __init__(self, name: str, parent: OneShotAgent, id: str) -> None:
        fields = self.__dict__
        fields.update(_NEGOTIATOR_FIELDS)
        fields["_private_info"] = {}
        fields["_capabilities"] = dict(_NEGOTIATOR_FIELDS["_capabilities"])
        fields["_GBNegotiator__received_offer"] = _NEGOTIATOR_FIELDS["_GBNegotiator__received_offer"].copy()
        fields["_NamedObject__name"], fields["_NamedObject__uuid"] = name, id
        fields["_Negotiator__parent"] = parent

    def enter(self, nmi: SAONMI, owner: Any) -> None:
        """Join a negotiation for an agent; a plain agent is not asked for leave, nor told."""
        fields = self.__dict__
        fields["_nmi"], fields["_Negotiator__owner"], fields["_role"] = nmi, owner, "negotiator"

    @property
    def hears_start(self) -> bool:
        """Whether the start of a negotiation does anything here."""
        parent = self._Negotiator__parent
        return self._preferences is not None or type(parent).on_negotiation_start is not _DEAF

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or self._Negotiator__parent is None:
            raise AttributeError(name)
        return ControlledSAONegotiator.__getattribute__(self, name)

    def propose(self, *args: Any, **kwargs: Any) -> Any:
        parent = self._Negotiator__parent
        if parent is None:
            return super().propose(*args, **kwargs)
        return parent.propose(*args, negotiator_id=self._NamedObject__uuid, **kwargs)

    def respond(self, *args: Any, **kwargs: Any) -> Any:
        parent = self._Negotiator__parent
        if parent is None:
            return super().respond(*args, **kwargs)
        return parent.respond(*args, negotiator_id=self._NamedObject__uuid, **kwargs)

    def on_negotiation_start(self, state: SAOState) -> Any:
        parent = self._Negotiator__parent
        return None if parent is None else parent.on_negotiation_start(state=state, negotiator_id=self.id)

    def on_negotiation_end(self, state: SAOState) -> Any:
        parent = self._Negotiator__parent
        return None if parent is None else parent.on_negotiation_end(state=state, negotiator_id=self.id)


_DEAF = Controller.on_negotiation_start
_NEGOTIATOR_FIELDS: dict[str, Any] = vars(ControlledSAONegotiator(name="template", id="template"))
