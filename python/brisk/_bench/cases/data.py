"""Loading data: what a batch costs before anything is computed with it."""

import importlib

from case import case, numbers

ROWS, BATCH = 10_000, 32


@case(
    "dataloader",
    "`DataLoader` over a TensorDataset of 10,000 rows, shuffled, per batch of 32",
    target=5,
    per=ROWS // BATCH + 1,
)
def dataloader(torch):
    data = importlib.import_module(torch.__name__ + ".utils.data")
    x, y = torch.from_numpy(numbers(ROWS, 16)), torch.from_numpy(numbers(ROWS, seed=1))
    loader = data.DataLoader(data.TensorDataset(x, y), batch_size=BATCH, shuffle=True)

    def body():
        torch.manual_seed(0)
        for batch, target in loader:
            batch.numpy(), target.numpy()  # so that lazy evaluation gains nothing by not making them
        return batch

    return body
