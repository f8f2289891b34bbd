"""Adam over all parameters as one array, checked to hold every parameter once, saved as plain tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from echelon.onpolicy.aligned import aligned_size

MOMENTS = ("exp_avg", "exp_avg_sq")
_FUSED = ("cpu", "cuda", "mps")


class JointAdam:
    """Adam whose parameters are adjacent in one array; each keeps its shape as a view of it.

    With many small layers an update of each costs more than the gradient. One array needs one call to clip and one to
    step. Each parameter starts at an aligned address, as one outside an optimiser does, so that a copy of the weights
    in another process computes the same to the bit; the gaps hold zeros, and their gradients and moments are zero.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], lr: float, eps: float = 1e-5, weight_decay: float = 0.0
    ) -> None:
        """`weight_decay` is AdamW's: apart from the gradient."""
        self.parameters = [p for p in parameters if p.requires_grad]
        if not self.parameters:
            raise ValueError("an optimiser needs at least one parameter that learns")
        self._sizes = [p.numel() for p in self.parameters]
        self._rooms = [aligned_size(p.numel(), p.dtype) for p in self.parameters]
        self._gaps = [p.detach().new_zeros(r - p.numel()) for p, r in zip(self.parameters, self._rooms, strict=True)]
        self.joint = self._spread([p.detach() for p in self.parameters])
        """All parameters as one array, with gaps; to write to it is to write to them."""
        for parameter, view in zip(self.parameters, self._views(self.joint), strict=True):
            parameter.data = view
        self._places = [p.data_ptr() for p in self.parameters]
        self.lr, self._eps, self._weight_decay = lr, eps, weight_decay
        self._gradient: Tensor | None = None
        self._saved: dict[str, Tensor] = {}

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters:
            parameter.grad = None
        self._gradient = None

    def gather(self) -> Tensor:
        """The gradient as one array, which the next `step` takes; to be changed in place, as clipping does."""
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        if len(gradients) != len(self.parameters):
            raise ValueError(
                f"{len(self.parameters) - len(gradients)} of {len(self.parameters)} parameters have no gradient; "
                "use them in the loss, or give the optimiser only those that learn"
            )
        self._gradient = self._spread(gradients)
        return self._gradient

    @property
    def gradient(self) -> Tensor:
        """The gradient that the next `step` takes, to be changed in place; gathered if nothing was put."""
        return self.gather() if self._gradient is None else self._gradient

    def put(self, gradient: Tensor) -> None:
        """Let the next `step` take this gradient, one array like `joint`, in place of the parameters' own."""
        if gradient.shape != self.joint.shape:
            raise ValueError(f"a gradient of {tuple(gradient.shape)} for parameters of {tuple(self.joint.shape)}")
        self._gradient = gradient

    @torch.no_grad()
    def step(self) -> None:
        """One step along the gathered gradient."""
        gradient = self.gradient
        if [p.data_ptr() for p in self.parameters] != self._places:
            raise ValueError("parameters were moved (by .to(), .double(), ...) after their optimiser; move them before")
        if not self._saved:
            self._saved = {name: torch.zeros_like(self.joint) for name in MOMENTS} | {
                "step": self.joint.new_zeros((), dtype=torch.float32)
            }
        adamw(  # the function inside torch.optim.AdamW, whose hooks and groups cost as much again
            [self.joint],
            [gradient],
            [self._saved["exp_avg"]],
            [self._saved["exp_avg_sq"]],
            [],
            [self._saved["step"]],
            fused=self.joint.device.type in _FUSED,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self.lr,
            weight_decay=self._weight_decay,
            eps=self._eps,
            maximize=False,
        )
        self._gradient = None

    def state_dict(self) -> dict[str, Tensor]:
        """Moments and step count of each parameter, and the learning rate; flat, as copies."""
        state = {"lr": torch.tensor([self.lr], dtype=torch.float64)}
        for name in MOMENTS if self._saved else ():
            state |= {f"{i}.{name}": view.clone() for i, view in enumerate(self._views(self._saved[name]))}
        if self._saved:
            state |= {f"{i}.step": self._saved["step"].clone() for i in range(len(self.parameters))}
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from `state_dict`, bit for bit."""
        self.lr = float(state["lr"])
        if len(state) == 1:
            self._saved = {}
            return
        wanted = {f"{i}.{name}": p.shape for i, p in enumerate(self.parameters) for name in MOMENTS}
        found = {name: t.shape for name, t in state.items() if name != "lr" and not name.endswith(".step")}
        if wanted != found:
            wrong = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
            raise ValueError(f"saved optimiser state does not match the parameters of this policy: {', '.join(wrong)}")
        moments = {name: self._spread([state[f"{i}.{name}"] for i in range(len(self.parameters))]) for name in MOMENTS}
        self._saved = {name: t.to(self.joint.device) for name, t in moments.items()}
        self._saved["step"] = state["0.step"].clone().to(self.joint.device)

    def without_gaps(self, joint: Tensor) -> Tensor:
        """An array like `joint` as it is saved."""
        return torch.cat([view.reshape(-1) for view in self._views(joint)])

    def with_gaps(self, saved: Tensor) -> Tensor:
        """The inverse of `without_gaps`."""
        return self._spread(torch.split(saved, self._sizes))

    def _spread(self, pieces: Sequence[Tensor]) -> Tensor:
        """Pieces of the parameters' sizes as one array in which each starts at an aligned address."""
        return torch.cat(
            [part for piece, gap in zip(pieces, self._gaps, strict=True) for part in (piece.reshape(-1), gap)]
        )

    def _views(self, joint: Tensor) -> list[Tensor]:
        rooms = zip(torch.split(joint, self._rooms), self.parameters, strict=True)
        return [room[: p.numel()].view(p.shape) for room, p in rooms]


def clip_gradients(optimizers: Sequence[JointAdam], limit: float | None) -> Tensor:
    """Shorten the gathered gradient of all optimisers together to `limit`; returns its length before."""
    gradients = [optimizer.gradient for optimizer in optimizers]
    norm: Tensor = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients]))
    if limit is not None:
        scale = (limit / (norm + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(scale)
    return norm


def check_optimizers(parameters: Mapping[str, nn.Parameter], optimizers: Sequence[JointAdam]) -> None:
    """Every trainable parameter must be in exactly one optimiser, and the optimisers must hold nothing else.

    A layer made after its optimiser, or two optimisers over one layer, would train silently wrong. Call it with the
    parameters of all levels and all optimisers to check across levels.
    """
    held: dict[int, int] = {}
    for optimizer in optimizers:
        for parameter in optimizer.parameters:
            held[id(parameter)] = held.get(id(parameter), 0) + 1
    missing = [name for name, p in parameters.items() if p.requires_grad and id(p) not in held]
    if missing:
        raise ValueError(
            f"parameters {missing} are in no optimiser; make the optimiser after the layers, or freeze them"
        )
    twice = [name for name, p in parameters.items() if held.get(id(p), 0) > 1]
    if twice:
        raise ValueError(f"parameters {twice} are in more than one optimiser; each must be in exactly one")
    foreign = len(held.keys() - {id(p) for p in parameters.values()})
    if foreign:
        raise ValueError(
            f"the optimisers hold {foreign} parameters that the policy does not; give each policy its own optimiser"
        )
