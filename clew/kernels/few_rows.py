"""A function mode that replaces torch's functions by kernels for a decoding step on a GPU, so layers need no changes.

Libraries choose their kernels for large matrices: a product with one row waits for a pipeline that it does not need,
and one whose width is not a multiple of 8, as in many vocabularies, is written without vector instructions. Here
products of few rows read each weight once at full speed, fused with the norm before them and the activation and sum
after them (`step_plans`), and only the requested entries of the softmax over a vocabulary are computed (`vocabulary`,
`top_k`). The mode is active only without gradients.
"""

import inspect
import weakref
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from clew.kernels import vocabulary
from clew.kernels.deferred import ABOUT, Deferred, computed, deferred_plan
from clew.kernels.step_plans import MOST_DEPTH, LogSoftmax, ManyRows, Normed, Product, Sum, normed
from clew.kernels.top_k import takes_topk, topk
from clew.kernels.vocabulary import FLOATS, flatten_rows, parts_of

MOST_ROWS = 8
ALIGNED = 8
"""The number of two-byte entries that one instruction reads or writes."""
WIDE = 4096
"""The minimum number of outputs for which an unaligned product justifies an aligned copy of its weights."""
WIDEST_NORM = 8192
PLAIN = (Tensor, nn.Parameter)
"""The types of ordinary tensors; a quantised weight has its own product."""


class FewRows(TorchFunctionMode):
    """Computes products, norms, softmaxes and maxima with kernels for few rows.

    One object serves a step that runs many times: it keeps aligned copies of weights with unaligned width, which
    `refresh` updates when weights may have changed. With `fuses`, several consecutive functions become one kernel if
    possible (`deferred`); tensors that leave the context may then be `Deferred`, and `computed` turns them into
    ordinary tensors.
    """

    def __init__(self, fuses: bool = False) -> None:
        super().__init__()
        self.fuses = fuses
        self.aligned: dict[int, tuple[weakref.ref[Tensor], Tensor]] = {}
        self.waiting: list[weakref.ref[Deferred]] = []
        self.counters: list[Tensor] = []

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self.waiting.clear()
        self.count()

    def refresh(self) -> None:
        for place, aligned in self.aligned.values():
            if (weight := place()) is not None:
                aligned[: len(weight)].copy_(weight)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not torch.is_grad_enabled():
            if self.fuses:
                self.settle(func, args, kwargs)
                if func is Tensor.add_ and is_counter(args, kwargs):
                    self.counters.append(args[0])
                    return args[0]
            form = FORMS.get(func)
            if (
                form is not None
                and accepts(form, self, *args, **kwargs)
                and (result := form(self, *args, **kwargs)) is not None
            ):
                return result
        return func(*args, **kwargs)

    def defer(self, plan: Any, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
        if not self.fuses:
            return plan.run()  # type: ignore[no-any-return]
        deferred = Deferred(plan, shape, dtype, device)
        self.waiting.append(weakref.ref(deferred))
        return deferred

    def settle(self, func: Callable[..., Any], args: Any, kwargs: Any) -> None:
        """Prepare for a function call: compute deferred results that read a tensor the function writes, and update
        counters that it uses."""
        if func in ABOUT:
            return
        is_writing = writes(func, args, kwargs)
        if not is_writing and not self.counters:
            return
        leaves = [leaf.result if isinstance(leaf, Deferred) else leaf for leaf in tree_leaves((args, kwargs))]
        places = {storage(leaf) for leaf in leaves if isinstance(leaf, Tensor) and type(leaf) in PLAIN}
        if any(storage(counter) in places for counter in self.counters):
            self.count()
        if is_writing:
            waiting = [
                deferred for place in self.waiting if (deferred := place()) is not None and deferred.result is None
            ]
            for deferred in waiting:
                if any(storage(part) in places for part in deferred.plan.reads):
                    deferred.numbers()
            self.waiting = [weakref.ref(deferred) for deferred in waiting if deferred.result is None]

    def count(self) -> None:
        """Add the pending 1 to all counters in one kernel."""
        if self.counters:
            counters, self.counters = self.counters, []
            torch._foreach_add_(counters, 1)

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
        rows = x.numel() // max(x.shape[-1], 1)
        is_plain = (
            is_on_gpu(x)
            and x.dtype == weight.dtype
            and x.dtype in FLOATS
            and weight.dim() == 2
            and weight.stride(1) == 1
        )
        if type(weight) not in PLAIN or not is_plain or not rows or torch.is_autocast_enabled("cuda"):
            return None
        shape = (*x.shape[:-1], len(weight))
        if rows <= MOST_ROWS:
            before = deferred_plan(x, Normed) if x.shape[-1] <= MOST_DEPTH else None
            return self.defer(Product(before or computed(x), weight, bias), shape, x.dtype, x.device)
        is_odd = len(weight) % ALIGNED and len(weight) >= WIDE and x.dtype != torch.float32
        padded = self.aligned_weight(weight) if is_odd else weight
        return self.defer(ManyRows(computed(x), padded, bias, len(weight)), shape, x.dtype, x.device)

    def aligned_weight(self, weight: Tensor) -> Tensor:
        """Return a stored copy of the weight, padded with rows of zeros to an aligned width."""
        if (entry := self.aligned.get(weight.data_ptr())) is None:
            entry = weakref.ref(weight), F.pad(weight, (0, 0, 0, -len(weight) % ALIGNED))
            self.aligned[weight.data_ptr()] = entry
        return entry[1]

    def activate(self, name: str, x: Tensor) -> Tensor | None:
        if (
            (product := deferred_plan(x, Product)) is not None
            and product.activation == ""
            and product.factor is product.added is None
        ):
            return self.defer(product._replace(activation=name), x.shape, x.dtype, x.device)
        product = deferred_plan(x, ManyRows)
        if product is None or name not in LIBRARY or product.bias is None or len(product.weight) != product.width:
            return None
        flat = torch._addmm_activation(
            product.bias, product.x.flatten(0, -2), product.weight.mT, use_gelu=name == "gelu_tanh"
        )
        return flat.view(x.shape)

    def relu(self, x: Tensor, inplace: bool = False) -> Tensor | None:
        return None if inplace else self.activate("relu", x)

    def silu(self, x: Tensor, inplace: bool = False) -> Tensor | None:
        return None if inplace else self.activate("silu", x)

    def gelu(self, x: Tensor, *, approximate: str = "none") -> Tensor | None:
        return self.activate("gelu_tanh" if approximate == "tanh" else "gelu", x)

    def multiply(self, left: Tensor, right: Any) -> Tensor | None:
        if not is_alike(left, right):
            return None
        for factor, x in ((left, right), (right, left)):
            if (product := deferred_plan(x, Product)) is not None and product.factor is product.added is None:
                return self.defer(product._replace(factor=computed(factor)), x.shape, x.dtype, x.device)
        return None

    def add(self, left: Tensor, right: Any, **scale: Any) -> Tensor | None:
        if scale or not is_alike(left, right) or not self.fuses:
            return None
        for added, x in ((left, right), (right, left)):
            if (product := deferred_plan(x, Product)) is not None and product.added is None:
                return self.defer(product._replace(added=computed(added)), x.shape, x.dtype, x.device)
        return self.defer(Sum(computed(left), computed(right)), left.shape, left.dtype, left.device)

    def layer_norm(
        self,
        x: Tensor,
        shape: Sequence[int],
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
        *more: Any,
    ) -> Tensor | None:
        return self.norm(x, shape, weight, bias, eps, centred=True)

    def rms_norm(
        self, x: Tensor, shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
    ) -> Tensor | None:
        return None if eps is None else self.norm(x, shape, weight, None, eps, centred=False)

    def norm(
        self, x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float, centred: bool
    ) -> Tensor | None:
        if len(shape) != 1 or shape[0] > WIDEST_NORM or weight is None or weight.dtype != x.dtype or not is_plain(x):
            return None
        if (summed := deferred_plan(x, Sum)) is not None and x.numel() // x.shape[-1] > MOST_ROWS:
            output, x.result = normed(Normed(summed.left, weight, bias, eps, centred), summed.right)  # type: ignore[attr-defined]
            return output
        return self.defer(Normed(computed(x), weight, bias, eps, centred), x.shape, x.dtype, x.device)

    def log_softmax(self, x: Tensor, dim: int = -1, *, dtype: torch.dtype | None = None) -> Tensor | None:
        if dim != -1 or (x.dtype if dtype is None else dtype) != torch.float32 or not is_plain(x):
            return None
        return self.defer(LogSoftmax(computed(x)), x.shape, torch.float32, x.device)

    def select(self, x: Tensor, index: Any) -> Tensor | None:
        """Select rows: rows of a log-softmax are the log-softmax of the selected rows."""
        plan = deferred_plan(x, LogSoftmax)
        index = index if isinstance(index, tuple) else (index,)
        if plan is None or len(index) >= x.dim() or not all(isinstance(part, (int, slice)) for part in index):
            return None
        return self.log_softmax(plan.logits[index], dtype=torch.float32)

    def view(self, x: Tensor, *shape: Any) -> Tensor | None:
        plan = deferred_plan(x, LogSoftmax)
        if (
            plan is None
            or not plan.logits.is_contiguous()
            or (viewed := plan.logits.view(*shape)).shape[-1:] != x.shape[-1:]
        ):
            return None
        return self.log_softmax(viewed, dtype=torch.float32)

    def argmax(self, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | None:
        """Return the first position of the largest entry of each row; 0 if all are NaN."""
        if dim != -1 or keepdim or x.dim() != 2 or not is_plain(x):
            return None
        plan = deferred_plan(x, LogSoftmax)
        if plan is None:
            return None if x.dtype != torch.float32 else vocabulary.best(parts_of(flatten_rows(computed(x))))[0]
        plan.best = plan.best or vocabulary.best(plan.parts)
        token: Tensor = plan.best[0]
        return token

    def gather(self, x: Tensor, dim: int, index: Tensor) -> Tensor | None:
        plan = deferred_plan(x, LogSoftmax)
        if plan is None or x.dim() != 2 or dim not in (1, -1) or len(index) != len(x):
            return None
        index = computed(index)
        if (
            plan.best is not None
            and index.data_ptr() == plan.best[0].data_ptr()
            and index.shape[1] == index.stride(0) == 1
        ):
            return plan.best[1][:, None]  # type: ignore[no-any-return]
        return vocabulary.at(flatten_rows(plan.logits), plan.parts, index)

    def topk(self, x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
        plan = deferred_plan(x, LogSoftmax)
        logits = computed(x) if plan is None else plan.logits
        if not takes_topk(logits, k, dim, largest, sorted):
            return None
        return topk(logits, k, None if plan is None else plan.parts)


FORMS: dict[Callable[..., Any], Callable[..., Any]] = {
    F.linear: FewRows.linear,
    F.relu: FewRows.relu,
    F.silu: FewRows.silu,
    F.gelu: FewRows.gelu,
    Tensor.mul: FewRows.multiply,
    Tensor.add: FewRows.add,
    torch.layer_norm: FewRows.layer_norm,
    F.rms_norm: FewRows.rms_norm,
    Tensor.log_softmax: FewRows.log_softmax,
    Tensor.__getitem__: FewRows.select,
    Tensor.view: FewRows.view,
    Tensor.argmax: FewRows.argmax,
    Tensor.gather: FewRows.gather,
    Tensor.topk: FewRows.topk,
}
"""The replacements of torch functions. A replacement returns None if it does not support the arguments."""
SIGNATURES = {form: inspect.signature(form) for form in FORMS.values()}
WRITING = {"__setitem__", "__iand__", "__ior__", "__ixor__", "__ilshift__", "__irshift__"}
LIBRARY = ("relu", "gelu_tanh")
"""The activations that a library's product can include."""


def few_rows(device: torch.device, fuses: bool = False) -> FewRows | None:
    """Return the mode for a step on this device, or None if there is none."""
    if device.type != "cuda" or find_spec("triton") is None or device.index not in (None, torch.cuda.current_device()):
        return None  # Triton launches its kernels on the current GPU
    return FewRows(fuses)


def is_on_gpu(x: Tensor) -> bool:
    return x.is_cuda


def is_plain(x: Tensor) -> bool:
    return is_on_gpu(x) and x.dtype in FLOATS and x.numel() > 0


def is_alike(left: Tensor, right: Any) -> bool:
    """Whether two tensors have the same shape and dtype, one that the kernels support."""
    return isinstance(right, Tensor) and left.shape == right.shape and left.dtype == right.dtype and is_plain(left)


def accepts(form: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
    """Whether a replacement accepts these arguments; torch's functions have more arguments, under more names."""
    try:
        SIGNATURES[form].bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def is_counter(args: Sequence[Any], kwargs: Any) -> bool:
    """Whether the call adds 1 in place to a clock's counts, a one-dimensional integer tensor."""
    if len(args) != 2 or kwargs or type(args[1]) is not int or args[1] != 1 or type(args[0]) is not Tensor:
        return False
    return args[0].dtype == torch.long and args[0].dim() == 1 and is_on_gpu(args[0])


def writes(func: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> bool:
    """Whether a torch function writes to one of its arguments, judging by its name and options. A user's own Triton
    kernel is not detected."""
    name = getattr(func, "__name__", "")
    in_place = name in WRITING or (name.endswith("_") and not name.endswith("__"))
    return in_place or "out" in kwargs or bool(kwargs.get("inplace")) or any(option is True for option in args[1:])


def storage(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()
