"""One torch thread: a second one makes small networks slower, and results must not depend on the machine."""

import torch

torch.set_num_threads(1)
