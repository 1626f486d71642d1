"""Not there. The ImportError is what PyTorch raises without tensorboard, so programs that can do without it do."""

raise ImportError(
    "torch.utils.tensorboard is not there: brisk writes no event files. The package tensorboardX has a SummaryWriter "
    "that takes numbers and NumPy arrays"
)
