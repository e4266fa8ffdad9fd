"""What a decoding step does with few rows, on a GPU: products that read each weight once at full speed, with the norm before them and the
activation and the sum behind them; norms; the softmax over a vocabulary (`vocabulary`) and its k largest (`top_k`).

    y = g(W norm(x) + b) * f + r            1 to 8 rows: a program a few rows of W, no tensor cores, sums in float32
    s = x + y,    n = norm(s)               one kernel, with any number of rows

Libraries choose their kernels for large matrices: a product with one row then waits for a pipeline it does not need, and one whose width is
not a multiple of 8, as many vocabularies are not, is written without vector instructions. `FewRows` is a context in which torch's own
functions take these forms, so that layers stay as they are written. Only where no gradient is asked for.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from clew.kernels import vocabulary
from clew.kernels.ahead import launching
from clew.kernels.deferred import ABOUT, Deferred, made, plan_of
from clew.kernels.top_k import takes_topk, topk
from clew.kernels.vocabulary import Parts, parts_of, rows_of

try:
    import triton
    import triton.language as tl

    from clew.kernels.ahead import wait_for_others
except ImportError:  # a build of torch for the CPU comes without it
    triton = None

MOST_ROWS = 8
MOST_DEPTH = 4096
"""Entries of x that a product reads at once, and so the widest norm that it does itself."""
ALIGNED = 8
"""Entries of two bytes that are read or written by one instruction."""
WIDE = 4096
"""Outputs from which on a product that is not aligned is worth a second copy of its weights."""
WIDEST_NORM = 8192
FLOATS = (torch.bfloat16, torch.float16, torch.float32)
PLAIN = (Tensor, nn.Parameter)
"""Weights that lie in memory as they are; one in integers has a product of its own."""
ACTIVATIONS = {"": 0, "relu": 1, "gelu": 2, "gelu_tanh": 3, "silu": 4}


class Normed(NamedTuple):
    """norm(x): a plan, as the next three are (`deferred.Plan`)."""

    x: Tensor
    weight: Tensor
    bias: Tensor | None
    eps: float
    centred: bool

    @property
    def reads(self) -> list[Tensor]:
        return [self.x]

    def run(self) -> Tensor:
        return normed(self)[0]


class Product(NamedTuple):
    """activation(W x + b) * factor + added, x being the norm of something where that is not computed yet."""

    x: Tensor | Normed
    weight: Tensor
    bias: Tensor | None
    activation: str = ""
    factor: Tensor | None = None
    added: Tensor | None = None

    @property
    def reads(self) -> list[Tensor]:
        x = self.x.x if isinstance(self.x, Normed) else self.x
        return [part for part in (x, self.factor, self.added) if part is not None]

    def run(self) -> Tensor:
        return few_rows_linear(*self)


class ManyRows(NamedTuple):
    """W x + b by a library."""

    x: Tensor
    weight: Tensor
    bias: Tensor | None
    width: int  # of the result; the weight may have rows of zeros behind these

    @property
    def reads(self) -> list[Tensor]:
        return [self.x]

    def run(self) -> Tensor:
        if len(self.weight) == self.width:
            return F.linear(self.x, self.weight, self.bias)
        whole = F.linear(self.x, self.weight)[..., : self.width]
        return whole if self.bias is None else whole + self.bias


class Sum(NamedTuple):
    left: Tensor
    right: Tensor

    @property
    def reads(self) -> list[Tensor]:
        return [self.left, self.right]

    def run(self) -> Tensor:
        return self.left + self.right


class LogSoftmax:
    """log softmax(logits), of which some entries may be all that is asked for."""

    def __init__(self, logits: Tensor):
        self.logits = logits
        self.best: tuple[Tensor, Tensor] | None = None
        self._parts: Parts | None = None

    @property
    def reads(self) -> list[Tensor]:
        return [self.logits] if self.best is None else [self.logits, self.best[0]]

    @property
    def parts(self) -> Parts:
        if self._parts is None:
            self._parts = parts_of(rows_of(self.logits))
        return self._parts

    def run(self) -> Tensor:
        return vocabulary.log_softmax(self.logits, self.parts)


class FewRows(TorchFunctionMode):
    """Products, norms, softmaxes and maxima in the forms of this module.

    One object serves a step that is run many times: weights whose width is not aligned are kept in an aligned form, which `refresh` makes
    anew of weights that may have changed. With `fuses` several functions in a row become one kernel, where they can (`deferred`); what
    leaves the context may then be `Deferred`, and `made` makes ordinary tensors of it.
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

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not torch.is_grad_enabled():
            if self.fuses:
                self.settle(func, args, kwargs)
                if func is Tensor.add_ and is_counter(args, kwargs):
                    self.counters.append(args[0])
                    return args[0]
            form = FORMS.get(func)
            if form is not None and takes(form, self, *args, **kwargs) and (found := form(self, *args, **kwargs)) is not None:
                return found
        return func(*args, **kwargs)

    def defer(self, plan: Any, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
        if not self.fuses:
            return plan.run()  # type: ignore[no-any-return]
        deferred = Deferred(plan, shape, dtype, device)
        self.waiting.append(weakref.ref(deferred))
        return deferred

    def settle(self, func: Callable[..., Any], args: Any, kwargs: Any) -> None:
        """Before a function runs that counters are read by, or that writes over what a plan reads, those are brought up to date."""
        if func in ABOUT:
            return
        is_writing = writes(func, args, kwargs)
        if not is_writing and not self.counters:
            return
        leaves = [leaf.made if isinstance(leaf, Deferred) else leaf for leaf in tree_leaves((args, kwargs))]
        places = {storage(leaf) for leaf in leaves if isinstance(leaf, Tensor) and type(leaf) in PLAIN}
        if any(storage(counter) in places for counter in self.counters):
            self.count()
        if is_writing:
            waiting = [deferred for place in self.waiting if (deferred := place()) is not None and deferred.made is None]
            for deferred in waiting:
                if any(storage(part) in places for part in deferred.plan.reads):
                    deferred.numbers()
            self.waiting = [weakref.ref(deferred) for deferred in waiting if deferred.made is None]

    def count(self) -> None:
        """Adds to all counters at once what was to be added to each."""
        if self.counters:
            counters, self.counters = self.counters, []
            torch._foreach_add_(counters, 1)

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
        rows = x.numel() // max(x.shape[-1], 1)
        is_plain = is_on_gpu(x) and x.dtype == weight.dtype and x.dtype in FLOATS and weight.dim() == 2 and weight.stride(1) == 1
        if type(weight) not in PLAIN or not is_plain or not rows or torch.is_autocast_enabled("cuda"):
            return None
        shape = (*x.shape[:-1], len(weight))
        if rows <= MOST_ROWS:
            before = plan_of(x, Normed) if x.shape[-1] <= MOST_DEPTH else None
            return self.defer(Product(before or made(x), weight, bias), shape, x.dtype, x.device)
        is_odd = len(weight) % ALIGNED and len(weight) >= WIDE and x.dtype != torch.float32
        given = self.aligned_weight(weight) if is_odd else weight
        return self.defer(ManyRows(made(x), given, bias, len(weight)), shape, x.dtype, x.device)

    def aligned_weight(self, weight: Tensor) -> Tensor:
        """The weight with rows of zeros behind it, as many as make its width aligned."""
        if (kept := self.aligned.get(weight.data_ptr())) is None:
            kept = weakref.ref(weight), F.pad(weight, (0, 0, 0, -len(weight) % ALIGNED))
            self.aligned[weight.data_ptr()] = kept
        return kept[1]

    def activate(self, name: str, x: Tensor) -> Tensor | None:
        if (product := plan_of(x, Product)) is not None and product.activation == "" and product.factor is product.added is None:
            return self.defer(product._replace(activation=name), x.shape, x.dtype, x.device)
        product = plan_of(x, ManyRows)
        if product is None or name not in LIBRARY or product.bias is None or len(product.weight) != product.width:
            return None
        flat = torch._addmm_activation(product.bias, product.x.flatten(0, -2), product.weight.mT, use_gelu=name == "gelu_tanh")
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
            if (product := plan_of(x, Product)) is not None and product.factor is product.added is None:
                return self.defer(product._replace(factor=made(factor)), x.shape, x.dtype, x.device)
        return None

    def add(self, left: Tensor, right: Any, **scale: Any) -> Tensor | None:
        if scale or not is_alike(left, right) or not self.fuses:
            return None
        for added, x in ((left, right), (right, left)):
            if (product := plan_of(x, Product)) is not None and product.added is None:
                return self.defer(product._replace(added=made(added)), x.shape, x.dtype, x.device)
        return self.defer(Sum(made(left), made(right)), left.shape, left.dtype, left.device)

    def layer_norm(
        self, x: Tensor, shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, *more: Any
    ) -> Tensor | None:
        return self.norm(x, shape, weight, bias, eps, centred=True)

    def rms_norm(self, x: Tensor, shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None) -> Tensor | None:
        return None if eps is None else self.norm(x, shape, weight, None, eps, centred=False)

    def norm(self, x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float, centred: bool) -> Tensor | None:
        if len(shape) != 1 or shape[0] > WIDEST_NORM or weight is None or weight.dtype != x.dtype or not is_plain(x):
            return None
        if (summed := plan_of(x, Sum)) is not None and x.numel() // x.shape[-1] > MOST_ROWS:
            found, x.made = normed(Normed(summed.left, weight, bias, eps, centred), summed.right)  # type: ignore[attr-defined]
            return found
        return self.defer(Normed(made(x), weight, bias, eps, centred), x.shape, x.dtype, x.device)

    def log_softmax(self, x: Tensor, dim: int = -1, *, dtype: torch.dtype | None = None) -> Tensor | None:
        if dim != -1 or (x.dtype if dtype is None else dtype) != torch.float32 or not is_plain(x):
            return None
        return self.defer(LogSoftmax(made(x)), x.shape, torch.float32, x.device)

    def select(self, x: Tensor, index: Any) -> Tensor | None:
        """Some rows of a log-softmax are the log-softmax of these."""
        plan = plan_of(x, LogSoftmax)
        index = index if isinstance(index, tuple) else (index,)
        if plan is None or len(index) >= x.dim() or not all(isinstance(part, (int, slice)) for part in index):
            return None
        return self.log_softmax(plan.logits[index], dtype=torch.float32)

    def view(self, x: Tensor, *shape: Any) -> Tensor | None:
        plan = plan_of(x, LogSoftmax)
        if plan is None or not plan.logits.is_contiguous() or (viewed := plan.logits.view(*shape)).shape[-1:] != x.shape[-1:]:
            return None
        return self.log_softmax(viewed, dtype=torch.float32)

    def argmax(self, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | None:
        """The first place of the largest entry of each row; 0 where all are NaN."""
        if dim != -1 or keepdim or x.dim() != 2 or not is_plain(x):
            return None
        plan = plan_of(x, LogSoftmax)
        if plan is None:
            return None if x.dtype != torch.float32 else vocabulary.best(parts_of(rows_of(made(x))))[0]
        plan.best = plan.best or vocabulary.best(plan.parts)
        token: Tensor = plan.best[0]
        return token

    def gather(self, x: Tensor, dim: int, index: Tensor) -> Tensor | None:
        plan = plan_of(x, LogSoftmax)
        if plan is None or x.dim() != 2 or dim not in (1, -1) or len(index) != len(x):
            return None
        index = made(index)
        if plan.best is not None and index.data_ptr() == plan.best[0].data_ptr() and index.shape[1] == index.stride(0) == 1:
            return plan.best[1][:, None]  # type: ignore[no-any-return]
        return vocabulary.at(rows_of(plan.logits), plan.parts, index)

    def topk(self, x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
        plan = plan_of(x, LogSoftmax)
        logits = made(x) if plan is None else plan.logits
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
"""What stands for a function of torch's; it gives None where it does not take the arguments."""
SIGNATURES = {form: inspect.signature(form) for form in FORMS.values()}
WRITING = {"__setitem__", "__iand__", "__ior__", "__ixor__", "__ilshift__", "__irshift__"}
LIBRARY = ("relu", "gelu_tanh")
"""Activations that a library's product does itself."""


def few_rows(device: torch.device, fuses: bool = False) -> FewRows | None:
    """The mode for a step on this device, where there is one."""
    if device.type != "cuda" or triton is None or device.index not in (None, torch.cuda.current_device()):
        return None  # Triton launches its kernels on the current GPU
    return FewRows(fuses)


def is_on_gpu(x: Tensor) -> bool:
    return x.is_cuda


def is_plain(x: Tensor) -> bool:
    return is_on_gpu(x) and x.dtype in FLOATS and x.numel() > 0


def is_alike(left: Tensor, right: Any) -> bool:
    """Whether two tensors have the same shape and numbers that the kernels take."""
    return isinstance(right, Tensor) and left.shape == right.shape and left.dtype == right.dtype and is_plain(left)


def takes(form: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
    """Whether a form has these arguments; torch's functions have more, and more names for them."""
    try:
        SIGNATURES[form].bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def is_counter(args: Sequence[Any], kwargs: Any) -> bool:
    """Whether 1 is added in place to what a clock has counted."""
    if len(args) != 2 or kwargs or type(args[1]) is not int or args[1] != 1 or type(args[0]) is not Tensor:
        return False
    return args[0].dtype == torch.long and args[0].dim() == 1 and is_on_gpu(args[0])


def writes(func: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> bool:
    """Whether a function of torch's writes into one of its arguments, as far as its name and its options say."""
    name = getattr(func, "__name__", "")
    in_place = name in WRITING or (name.endswith("_") and not name.endswith("__"))
    return in_place or "out" in kwargs or bool(kwargs.get("inplace")) or any(option is True for option in args[1:])


def storage(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()


def few_rows_linear(
    x: Tensor | Normed,
    weight: Tensor,
    bias: Tensor | None,
    activation: str = "",
    factor: Tensor | None = None,
    added: Tensor | None = None,
) -> Tensor:
    norm, x = (x, x.x) if isinstance(x, Normed) else (None, x)
    flat = rows_of(x)
    rows, depth = flat.shape
    width = len(weight)
    out = torch.empty(*x.shape[:-1], width, dtype=x.dtype, device=x.device)
    step = triton.next_power_of_2(depth)
    block = 16 if width > 8192 else 4
    beside = [None if part is None else rows_of(part) for part in (factor, added)]
    scales = (None, None) if norm is None else (norm.weight, norm.bias)
    _linear[(triton.cdiv(width, block),)](
        flat, weight, *(weight if part is None else part for part in (bias, *scales, *beside)), out,
        flat.stride(0), weight.stride(0), *(0 if part is None else part.stride(0) for part in beside), width, depth,
        0.0 if norm is None else norm.eps,
        ROWS=rows, BLOCK=block, STEP=min(step, MOST_DEPTH), IS_WHOLE=step <= MOST_DEPTH, HAS_BIAS=bias is not None,
        NORM=0 if norm is None else 2 if norm.centred else 1, NORM_HAS_BIAS=scales[1] is not None,
        ACTIVATION=ACTIVATIONS[activation], HAS_FACTOR=factor is not None, HAS_ADDED=added is not None,
        num_warps=4 if step <= 1024 else 8, **launching(),
    )  # fmt: skip
    return out


def normed(norm: Normed, added: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """norm(x + added), and the sum."""
    x, weight, bias, eps, centred = norm
    flat = rows_of(x)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    other = flat if added is None else rows_of(added)
    total = x if added is None else torch.empty_like(out)
    width = triton.next_power_of_2(flat.shape[1])
    _norm[(len(flat),)](
        flat, other, weight, bias if bias is not None else weight, out, total if added is not None else out,
        flat.stride(0), other.stride(0), flat.shape[1], eps,
        WIDTH=width, CENTRED=centred, HAS_BIAS=bias is not None, ADDS=added is not None, num_warps=max(1, min(8, width // 256)),
        **launching(),
    )  # fmt: skip
    return out, total


if triton is not None:

    @triton.jit
    def _activated(z, ACTIVATION: tl.constexpr):
        if ACTIVATION == 1:
            z = tl.where(z == z, tl.maximum(z, 0.0), z)
        if ACTIVATION == 2:
            z = 0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476))
        if ACTIVATION == 3:
            inner = 0.7978845608028654 * (z + 0.044715 * z * z * z)
            z = z * tl.sigmoid(2.0 * inner)  # 0.5 (1 + tanh(u)) = sigmoid(2 u)
        if ACTIVATION == 4:
            z = z * tl.sigmoid(z)
        return z

    @triton.jit
    def _standardised(z, real, width, weight, bias, k, eps, CENTRED: tl.constexpr, HAS_BIAS: tl.constexpr):
        """norm(z), of which `width` entries are real and the others 0."""
        if CENTRED:
            z = tl.where(real, z - tl.sum(z, 0) / width, 0.0)
        z = z / tl.sqrt(tl.sum(z * z, 0) / width + eps) * tl.load(weight + k, mask=real, other=0.0).to(tl.float32)
        if HAS_BIAS:
            z += tl.load(bias + k, mask=real, other=0.0).to(tl.float32)
        return z

    @triton.jit
    def _linear(
        x, weight, bias, norm_weight, norm_bias, factor, added, out, x_row, weight_row, factor_row, added_row, width, depth, eps,
        ROWS: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr, IS_WHOLE: tl.constexpr, HAS_BIAS: tl.constexpr, NORM: tl.constexpr,
        NORM_HAS_BIAS: tl.constexpr, ACTIVATION: tl.constexpr, HAS_FACTOR: tl.constexpr, HAS_ADDED: tl.constexpr, AHEAD: tl.constexpr,
    ):  # fmt: skip
        # Results are rounded where a kernel of their own would round them.
        number = out.dtype.element_ty
        n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        k = tl.arange(0, STEP)
        is_output = n < width
        rows_of_weight = weight + n.to(tl.int64)[:, None] * weight_row
        offset = tl.zeros([BLOCK], dtype=tl.float32)
        if HAS_BIAS:
            offset = tl.load(bias + n, mask=is_output, other=0.0).to(tl.float32)
        if IS_WHOLE:  # the weights, which no other kernel writes, are under way before x is there
            some = tl.load(rows_of_weight + k[None, :], mask=is_output[:, None] & (k < depth)[None, :], other=0.0)
        wait_for_others(AHEAD)
        for row in tl.static_range(ROWS):
            if IS_WHOLE:
                given = tl.load(x + row * x_row + k, mask=k < depth, other=0.0).to(tl.float32)
                if NORM > 0:
                    given = _standardised(given, k < depth, depth, norm_weight, norm_bias, k, eps, NORM == 2, NORM_HAS_BIAS)
                    given = given.to(number).to(tl.float32)
                total = tl.sum(some.to(tl.float32) * given[None, :], 1)
            else:
                sums = tl.zeros([BLOCK, STEP], dtype=tl.float32)
                for start in range(0, depth, STEP):
                    at = start + k
                    some = tl.load(rows_of_weight + at[None, :], mask=is_output[:, None] & (at < depth)[None, :], other=0.0)
                    given = tl.load(x + row * x_row + at, mask=at < depth, other=0.0)
                    sums += some.to(tl.float32) * given.to(tl.float32)[None, :]
                total = tl.sum(sums, 1)
            y = (total + offset).to(number)
            if ACTIVATION > 0:
                y = _activated(y.to(tl.float32), ACTIVATION).to(number)
            if HAS_FACTOR:
                y = (y.to(tl.float32) * tl.load(factor + row * factor_row + n, mask=is_output, other=0.0).to(tl.float32)).to(number)
            if HAS_ADDED:
                y = (y.to(tl.float32) + tl.load(added + row * added_row + n, mask=is_output, other=0.0).to(tl.float32)).to(number)
            tl.store(out + row * width + n, y, mask=is_output)

    @triton.jit
    def _norm(
        x, added, weight, bias, out, total, x_row, added_row, width, eps,
        WIDTH: tl.constexpr, CENTRED: tl.constexpr, HAS_BIAS: tl.constexpr, ADDS: tl.constexpr, AHEAD: tl.constexpr,
    ):  # fmt: skip
        wait_for_others(AHEAD)
        row = tl.program_id(0).to(tl.int64)
        k = tl.arange(0, WIDTH)
        real = k < width
        z = tl.load(x + row * x_row + k, mask=real, other=0.0).to(tl.float32)
        if ADDS:
            z += tl.load(added + row * added_row + k, mask=real, other=0.0).to(tl.float32)
            z = z.to(total.dtype.element_ty)
            tl.store(total + row * width + k, z, mask=real)
            z = z.to(tl.float32)
        z = _standardised(z, real, width, weight, bias, k, eps, CENTRED, HAS_BIAS)
        tl.store(out + row * width + k, z.to(out.dtype.element_ty), mask=real)
