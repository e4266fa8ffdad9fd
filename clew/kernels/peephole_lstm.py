"""A peephole LSTM over a sequence with its gradient written out, for which no library has a fused kernel.

    z_t = W x_t + U h_{t-1} + b,    i, f += p_i, p_f * c_{t-1},    o += p_o * c_t

Forwards a step is one product and ten operations in place. Backwards all factors that do not depend on later steps are made for all steps
at once, so that a step is one product and nine operations, and the gradients of W, U, b and p are one product or sum each at the end. The
equation under autograd has about four times as many operations, and a product for U's gradient in every step.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from clew.core.masks import real_positions


def peephole_lstm(
    x: Tensor,
    mask: Tensor | None,
    state: Any,
    input_weight: Tensor,
    hidden_weight: Tensor,
    input_bias: Tensor,
    hidden_bias: Tensor,
    peepholes: Tensor,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Products are in the weights' own type, under autocast too: the sums over steps would lose digits."""
    dtype, device = input_weight.dtype, x.device.type
    with torch.autocast(device, enabled=False):
        real = real_positions(mask)
        if real is not None:  # padding may hold NaN, and 0 * NaN is NaN
            x = torch.where(real[..., None], x, 0.0)
        projected = F.linear(x.to(dtype), input_weight, input_bias + hidden_bias)
        given = projected, hidden_weight, peepholes, state.hidden.to(dtype), state.cell.to(dtype), real
        y, hidden, cell = PeepholeLSTM.apply(*given)  # type: ignore[no-untyped-call]
    return y, (hidden, cell)


class PeepholeLSTM(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, projected: Tensor, weight: Tensor, peepholes: Tensor, hidden: Tensor, cell: Tensor, real: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        batch, length, _ = projected.shape
        dim = cell.shape[1]
        gates = projected.transpose(0, 1).clone(memory_format=torch.contiguous_format).view(length, batch, 4, dim)
        hiddens, cells = (state.new_empty(length + 1, batch, dim) for state in (hidden, cell))
        hiddens[0], cells[0] = hidden, cell
        squashed = torch.empty_like(cells[1:])  # tanh(c)
        across, of_gates, of_output = weight.mT.contiguous(), peepholes[:2], peepholes[2]
        sums, of_cell = gates.view(length, batch, 4 * dim).unbind(0), gates[:, :, :2].unbind(0)
        i, f, g, o = (gate.unbind(0) for gate in gates.unbind(2))
        hidden_at, cell_at, cell_beside, squashed_at = hiddens.unbind(0), cells.unbind(0), cells[:, :, None].unbind(0), squashed.unbind(0)
        for t in range(length):
            new = cell_at[t + 1]
            sums[t].addmm_(hidden_at[t], across)
            of_cell[t].addcmul_(cell_beside[t], of_gates).sigmoid_()
            torch.mul(f[t], cell_at[t], out=new).addcmul_(i[t], g[t].tanh_())
            o[t].addcmul_(new, of_output).sigmoid_()
            torch.mul(o[t], torch.tanh(new, out=squashed_at[t]), out=hidden_at[t + 1])
            if real is not None:
                is_padding = ~real[:, t, None]
                for state in (cell_at, hidden_at):
                    state[t + 1].copy_(torch.where(is_padding, state[t], state[t + 1]))
        ctx.save_for_backward(gates, weight, peepholes, hiddens, cells, squashed, real)
        # Copies, since outputs that are views of each other cannot be written over by their users.
        return hiddens[1:].transpose(0, 1).contiguous(), hiddens[-1].clone(), cells[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_y: Tensor, of_hidden: Tensor, of_cell: Tensor) -> Any:
        gates, weight, peepholes, hiddens, cells, squashed, real = ctx.saved_tensors
        length, batch, _, dim = gates.shape
        before = cells[:-1]
        i, f, g, o = gates.unbind(2)
        to_output = squashed * o * (1 - o)
        through_output = o * (1 - squashed * squashed)
        to_others = torch.stack([g * i * (1 - i), before * f * (1 - f), i * (1 - g * g)], 2)  # (length, batch, 3, dim)
        if real is not None:  # on padding a step is the identity
            goes_on = real.mT[..., None]
            to_output, through_output = (torch.where(goes_on, part, 0.0) for part in (to_output, through_output))
            to_others = torch.where(goes_on[..., None], to_others, 0.0)
            f = torch.where(goes_on, f, 1.0)
        errors = torch.empty_like(gates)  # of z
        sums, of_others = errors.view(length, batch, 4 * dim).unbind(0), errors[:, :, :3].unbind(0)
        of_input, of_forget, _, of_output = (error.unbind(0) for error in errors.unbind(2))
        factors = zip(f.unbind(0), to_output.unbind(0), through_output.unbind(0), to_others.unbind(0), of_y.unbind(1), strict=True)
        peep_input, peep_forget, peep_output = peepholes
        d_hidden, d_cell = of_hidden, of_cell.clone()
        beside = d_cell[:, None]
        for t, (kept, output, through, others, d_y) in reversed(list(enumerate(factors))):
            d_hidden = d_hidden + d_y
            torch.mul(d_hidden, output, out=of_output[t])
            d_cell.addcmul_(d_hidden, through).addcmul_(of_output[t], peep_output)
            torch.mul(beside, others, out=of_others[t])
            d_cell.mul_(kept).addcmul_(of_input[t], peep_input).addcmul_(of_forget[t], peep_forget)
            carried = sums[t] @ weight
            d_hidden = carried if real is None else torch.where(real[:, t, None], carried, d_hidden)
        flat = errors.view(length * batch, 4 * dim)
        d_weight = flat.mT @ hiddens[:-1].reshape(length * batch, dim)
        seen = torch.stack([before, before, cells[1:]], 2)
        d_peepholes = (errors[:, :, [0, 1, 3]] * seen).sum((0, 1))
        return flat.view(length, batch, 4 * dim).transpose(0, 1), d_weight, d_peepholes, d_hidden, d_cell, None
