"""The ground state of a chain of spins, by a circuit of qubits: a tensor of one dimension of size 2 for each.

Every gate is written as a loop over qubits that picks its dimension, so a step is hundreds of operations on small
tensors of many dimensions, forward and backward.
"""

import string

import torch

QUBITS, LAYERS, STEPS = 10, 3, 60
LETTERS = string.ascii_lowercase[:QUBITS]


def rotate(state, qubit, angle):
    half = angle / 2
    gate = torch.stack([torch.cos(half), -torch.sin(half), torch.sin(half), torch.cos(half)]).reshape(2, 2)
    turned = LETTERS.replace(LETTERS[qubit], "z")
    return torch.einsum(f"z{LETTERS[qubit]},{LETTERS}->{turned}", gate, state)


def flip_sign_of_pairs(state, signs):
    """A controlled Z for every pair of neighbours: amplitudes where both are 1 change their sign."""
    for qubit in range(QUBITS - 1):
        state = state * signs.reshape([1] * qubit + [2, 2] + [1] * (QUBITS - qubit - 2))
    return state


def energy(state, field):
    """-sum Z Z over neighbours, -field * sum X over all."""
    along = torch.tensor([1.0, -1.0])
    weight = state * state
    total = 0.0
    for qubit in range(QUBITS - 1):
        pair = torch.outer(along, along).reshape([1] * qubit + [2, 2] + [1] * (QUBITS - qubit - 2))
        total = total - (weight * pair).sum()
    for qubit in range(QUBITS):
        total = total - field * (state * state.flip(qubit)).sum()
    return total


def circuit(angles):
    signs = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
    state = torch.zeros([2] * QUBITS)
    state[(0,) * QUBITS] = 1.0
    for layer in range(LAYERS):
        for qubit in range(QUBITS):
            state = rotate(state, qubit, angles[layer, qubit])
        state = flip_sign_of_pairs(state, signs)
    return state


torch.manual_seed(0)
angles = (0.1 * torch.randn(LAYERS, QUBITS)).requires_grad_()
optimizer = torch.optim.Adam([angles], lr=0.1)
for step in range(STEPS):
    loss = energy(circuit(angles), field=1.0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0 or step == STEPS - 1:
        print(f"step {step:2d}  energy {loss.item():8.3f}")
