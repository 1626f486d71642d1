"""The names that programs use most, each with a line that uses it: `name | expression`.

A name is a path below torch; `keyword k`, `operator o` and `indexing i` stand for what is no name. Expressions see
torch, nn, F, np, and what test_names_of_programs.py makes: x, y (3 by 4), s (4 by 4), v (4), k (3 indices below 4), a
leaf g, a linear layer net, its optimizer opt after a backward pass, and c, a fresh copy of x that may be changed.
"""

TENSOR = """
Tensor.T | s.T ; Tensor.data | g.data ; Tensor.device | str(x.device) ; Tensor.dtype | x.dtype
Tensor.grad | [(g * g).sum().backward(), g.grad] ; Tensor.grad_fn | [g.grad_fn, type((g * 2).grad_fn).__name__]
Tensor.is_cuda | x.is_cuda ; Tensor.ndim | x.ndim ; Tensor.real | x.real
Tensor.requires_grad | [g.requires_grad, x.requires_grad] ; Tensor.shape | [x.shape, tuple(x.shape), x.shape[-1]]
Tensor.abs | x.abs() ; Tensor.add | x.add(y, alpha=2) ; Tensor.add_ | [c.add_(y), c]
Tensor.all | [(x > -9).all(), (x > 0).all(1)] ; Tensor.any | [(x > 9).any(), (x > 0).any(dim=0)]
Tensor.argmax | [x.argmax(), x.argmax(1), x.argmax(dim=0, keepdim=True)]
Tensor.backward | [g.exp().sum().backward(), g.grad] ; Tensor.bernoulli_ | c.bernoulli_(0.3)
Tensor.bmm | x[None].bmm(s[None]) ; Tensor.bool | (x > 0).float().bool() ; Tensor.byte | k.byte()
Tensor.chunk | x.chunk(2, 1) ; Tensor.clamp | [x.clamp(-1, 1), x.clamp(min=0), x.clamp(max=0)]
Tensor.clamp_ | [c.clamp_(-0.5, 0.5), c] ; Tensor.clone | x.clone() ; Tensor.contiguous | x.t().contiguous()
Tensor.copy_ | [c.copy_(y), c] ; Tensor.cpu | x.cpu()
Tensor.cuda | [torch.cuda.is_available() and x.cuda(), x.is_cuda] ; Tensor.cumsum | [x.cumsum(0), x.cumsum(dim=1)]
Tensor.data_ptr | [x.data_ptr() == x.view(-1).data_ptr(), c.data_ptr() != x.data_ptr()]
Tensor.detach | (g * 2).detach() ; Tensor.detach_ | [(g * 2).detach_()]
Tensor.diag | [s.diag(), v.diag(), s.diag(1)] ; Tensor.dim | x.dim()
Tensor.div | [x.div(y), x.div(2), x.div(2, rounding_mode='floor')] ; Tensor.div_ | [c.div_(2), c]
Tensor.dot | v.dot(v) ; Tensor.double | x.double() ; Tensor.eq | [k.eq(1), x.eq(x)] ; Tensor.exp | x.exp()
Tensor.expand | [v.expand(3, 4), v[:, None].expand(-1, 2)] ; Tensor.expand_as | v.expand_as(x)
Tensor.fill_ | c.fill_(2.5) ; Tensor.flatten | [x.flatten(), x[None].flatten(1)]
Tensor.flip | [x.flip(0), x.flip([0, 1])] ; Tensor.float | k.float() ; Tensor.gather | x.gather(1, k[:, None])
Tensor.int | x.int() ; Tensor.item | [x.sum().item(), k[0].item()] ; Tensor.log | x.abs().log()
Tensor.log10 | x.abs().log10() ; Tensor.long | x.long() ; Tensor.masked_fill | x.masked_fill(x > 0, -1e9)
Tensor.masked_fill_ | [c.masked_fill_(c > 0, 0), c] ; Tensor.masked_select | x.masked_select(x > 0)
Tensor.max | [x.max(), x.max(1), x.max(dim=0, keepdim=True), x.max(y)]
Tensor.mean | [x.mean(), x.mean(0), x.mean((0, 1)), x.mean(dim=1, keepdim=True)]
Tensor.min | [x.min(), x.min(1), x.min(y)] ; Tensor.mm | x.mm(s) ; Tensor.movedim | x[None].movedim(0, 2)
Tensor.mul | [x.mul(y), x.mul(3)] ; Tensor.mul_ | [c.mul_(y), c] ; Tensor.multinomial | x.abs().multinomial(2)
Tensor.narrow | x.narrow(1, 1, 2) ; Tensor.ndimension | x.ndimension() ; Tensor.nelement | x.nelement()
Tensor.new | [x.new(2, 3).shape, x.new([1.0, 2.0])] ; Tensor.new_empty | x.new_empty(2, 3).shape
Tensor.new_ones | x.new_ones((2, 3)) ; Tensor.new_zeros | [x.new_zeros(2), x.new_zeros(2, dtype=torch.long)]
Tensor.norm | [x.norm(), x.norm(1), x.norm(2, 1), x.norm(dim=0, keepdim=True)] ; Tensor.normal_ | c.normal_(1, 2)
Tensor.numel | x.numel() ; Tensor.numpy | [x.numpy(), g.detach().numpy()] ; Tensor.permute | x[None].permute(2, 0, 1)
Tensor.pow | [x.pow(2), x.abs().pow(0.5), x.pow(3.0)] ; Tensor.reciprocal | x.reciprocal()
Tensor.register_hook | [h := [], (z := g * 2).register_hook(lambda d: h.append(d * 3)), z.sum().backward(), h[0], \
g.grad][-2:]
Tensor.repeat | [x.repeat(2, 1), v.repeat(2, 3)] ; Tensor.requires_grad_ | c.requires_grad_()
Tensor.reshape | [x.reshape(4, 3), x.reshape(-1)] ; Tensor.reshape_as | s.reshape_as(s.t())
Tensor.resize_as_ | c.resize_as_(s[:3])
Tensor.retain_grad | [(z := g * 2).retain_grad(), z.sum().backward(), z.grad]
Tensor.round | [x.round(), (x * 10).round(decimals=1)] ; Tensor.scatter | x.scatter(1, k[:, None], 5.0)
Tensor.scatter_ | [c.scatter_(1, k[:, None], 1), c] ; Tensor.scatter_add_ | c.scatter_add_(1, k[:, None], y)
Tensor.set_ | c.set_(y) ; Tensor.sigmoid | x.sigmoid() ; Tensor.sigmoid_ | [c.sigmoid_(), c] ; Tensor.sign | x.sign()
Tensor.size | [x.size(), x.size(0), x.size(-1)] ; Tensor.softmax | [x.softmax(1), x.softmax(dim=0)]
Tensor.sort | [x.sort(), x.sort(0, descending=True)] ; Tensor.split | [x.split(2, 1), x.split([1, 3], dim=1)]
Tensor.sqrt | x.abs().sqrt() ; Tensor.squeeze | [x[None].squeeze(), x[:, None].squeeze(1)]
Tensor.std | [x.std(), x.std(0), x.std(1, unbiased=False)]
Tensor.sum | [x.sum(), x.sum(1), x.sum((0, 1)), x.sum(dim=0, keepdim=True), k.sum()] ; Tensor.t | x.t()
Tensor.tanh | x.tanh() ; Tensor.tile | x.tile(2, 1)
Tensor.to | [x.to(torch.float64), x.to('cpu'), x.to(k), x.to('cpu', torch.int64)] ; Tensor.to_dense | x.to_dense()
Tensor.tolist | [k.tolist(), k[0].tolist()] ; Tensor.topk | [x.topk(2), x.topk(1, dim=0, largest=False)]
Tensor.transpose | [x.transpose(0, 1), x[None].transpose(-2, -1)] ; Tensor.triu | [s.triu(), s.triu(1)]
Tensor.type | [x.type(), k.type(), x.type(torch.float64), x.type('torch.LongTensor')] ; Tensor.type_as | k.type_as(x)
Tensor.unbind | [x.unbind(), x.unbind(1)] ; Tensor.uniform_ | c.uniform_(-1, 1)
Tensor.unique | [k.unique(), k.unique(return_counts=True)] ; Tensor.unsqueeze | [x.unsqueeze(0), x.unsqueeze(-1)]
Tensor.var | [x.var(), x.var(0), x.var(1, unbiased=False)] ; Tensor.view | [x.view(-1), x.view(2, 6), x.view((4, 3))]
Tensor.view_as | x.view_as(y) ; Tensor.zero_ | [c.zero_(), c]
"""
TORCH = """
Generator | torch.rand(2, generator=torch.Generator().manual_seed(3))
Size | [torch.Size([2, 3]), torch.Size([2, 3]).numel()]
Tensor | [torch.Tensor(2, 3).shape, torch.Tensor([1, 2]), isinstance(x, torch.Tensor)]
__version__ | isinstance(torch.__version__, str) ; abs | torch.abs(x) ; accelerator | torch.accelerator.is_available()
addmm | [torch.addmm(y, x, s), torch.addmm(y, x, s, beta=0.5, alpha=2)] ; all | torch.all(x > -9)
allclose | [torch.allclose(x, x + 1e-9), torch.allclose(x, y)] ; any | torch.any(x > 0, dim=1)
arange | [torch.arange(5), torch.arange(1, 2, 0.3), torch.arange(0, 6, 2, dtype=torch.float32)]
argmax | torch.argmax(x, dim=1) ; as_strided | torch.as_strided(x, (2, 2), (4, 2), 1)
as_tensor | [torch.as_tensor([1.5, 2]), torch.as_tensor(np.arange(3))]
bernoulli | torch.bernoulli(torch.full((9,), 0.4)) ; bmm | torch.bmm(x[None], s[None])
cat | [torch.cat([x, y]), torch.cat((x, y), dim=1), torch.cat([x, y], -1)] ; ceil | torch.ceil(x)
clamp | torch.clamp(x, -1, 1) ; cos | torch.cos(x) ; cumprod | torch.cumprod(x, dim=1)
device | [str(torch.device('cpu')), torch.device('cuda:1').index, torch.device('cpu') == x.device]
diag | [torch.diag(v), torch.diag(s)] ; dot | torch.dot(v, v)
einsum | [torch.einsum('ij,jk->ik', x, s), torch.einsum('ij,ij->i', x, y)] ; empty | torch.empty(2, 3).shape
empty_like | torch.empty_like(x).shape ; eq | torch.eq(k, 1) ; exp | torch.exp(x)
eye | [torch.eye(3), torch.eye(2, 4)] ; from_numpy | torch.from_numpy(np.arange(4.0))
full | [torch.full((2, 3), 7), torch.full((2,), 1.5)] ; full_like | torch.full_like(x, 2)
gather | torch.gather(x, 1, k[:, None]) ; is_complex | torch.is_complex(x)
is_floating_point | [torch.is_floating_point(x), torch.is_floating_point(k)]
is_grad_enabled | torch.is_grad_enabled() ; is_tensor | [torch.is_tensor(x), torch.is_tensor(3)]
isfinite | torch.isfinite(x / 0) ; isnan | torch.isnan(x * float('nan'))
linspace | [torch.linspace(-1, 1, 7), torch.linspace(0, 1, steps=3)] ; load | reloaded(torch, {'a': x, 'b': [k, 1]})
log | torch.log(x.abs()) ; manual_seed | [torch.manual_seed(4).initial_seed(), torch.rand(3)]
masked_select | torch.masked_select(x, x > 0) ; matmul | [torch.matmul(x, s), torch.matmul(x, v), torch.matmul(v, v)]
max | [torch.max(x), torch.max(x, 1), torch.max(x, y)] ; mean | [torch.mean(x), torch.mean(x, 0)]
min | [torch.min(x), torch.min(x, dim=0), torch.min(x, y)] ; mm | torch.mm(x, s)
mul | [torch.mul(x, y), torch.mul(x, 2)] ; multinomial | torch.multinomial(x.abs(), 5, replacement=True)
nextafter | torch.nextafter(x, y) ; norm | [torch.norm(x), torch.norm(x, p=1), torch.norm(x, dim=1)]
normal | [torch.normal(0.0, 1.0, (3,)), torch.normal(x, y.abs()), torch.normal(mean=x)]
ones | [torch.ones(2, 3), torch.ones((2,), dtype=torch.long)] ; ones_like | torch.ones_like(x)
outer | torch.outer(v, v) ; pow | [torch.pow(x, 2), torch.pow(2, x)] ; prod | [torch.prod(x), torch.prod(x, 1)]
promote_types | torch.promote_types(torch.int64, torch.float16) ; rand | torch.rand(2, 3)
rand_like | torch.rand_like(x) ; randint | [torch.randint(5, (4,)), torch.randint(2, 9, (2, 2))]
randn | [torch.randn(2, 3), torch.randn(20)] ; randn_like | torch.randn_like(x) ; randperm | torch.randperm(10)
relu | torch.relu(x) ; save | saved_by(torch.save, [x, {'n': 3}])
searchsorted | [torch.searchsorted(v.sort()[0], x), torch.searchsorted(v.sort()[0], 0.1, side='right')]
sigmoid | torch.sigmoid(x) ; sign | torch.sign(x) ; sin | torch.sin(x) ; sort | torch.sort(x, dim=0)
split | torch.split(x, 2, dim=1) ; sqrt | torch.sqrt(x.abs()) ; square | torch.square(x)
squeeze | torch.squeeze(x[None], 0) ; stack | [torch.stack([x, y]), torch.stack((x, y), dim=2)]
sum | [torch.sum(x), torch.sum(x, dim=1)] ; svd | torch.svd(x)[1] ; tanh | torch.tanh(x)
tensor | [torch.tensor([[1, 2], [3, 4]]), torch.tensor(3.5), torch.tensor([True]), torch.tensor(np.ones(2))]
topk | torch.topk(x, 2) ; tril | [torch.tril(s), torch.tril(s, -1)] ; unbind | torch.unbind(x, 1)
unsqueeze | torch.unsqueeze(x, 1) ; var | torch.var(x, dim=1) ; where | [torch.where(x > 0, x, y), torch.where(x > 0)]
zeros | [torch.zeros(2, 3), torch.zeros(2, dtype=torch.bool)] ; zeros_like | torch.zeros_like(x)
bool | torch.zeros(2, dtype=torch.bool) ; double | torch.zeros(2, dtype=torch.double)
float | torch.zeros(2, dtype=torch.float) ; float32 | torch.zeros(2, dtype=torch.float32)
float64 | torch.zeros(2, dtype=torch.float64) ; int32 | torch.zeros(2, dtype=torch.int32)
int64 | torch.zeros(2, dtype=torch.int64) ; long | torch.zeros(2, dtype=torch.long)
FloatTensor | [torch.FloatTensor([1, 2]), torch.FloatTensor(2, 3).shape, isinstance(x, torch.FloatTensor)]
LongTensor | [torch.LongTensor([1, 2]), isinstance(k, torch.LongTensor)]
enable_grad | under(torch.no_grad(), lambda: under(torch.enable_grad(), lambda: (g * 2).requires_grad))
no_grad | [under(torch.no_grad(), lambda: (g * 2).requires_grad), torch.no_grad()(lambda: (g * 2).requires_grad)()]
"""
NN = """
nn.BCELoss | nn.BCELoss()(x.sigmoid(), y.sigmoid()) ; nn.BatchNorm1d | nn.BatchNorm1d(4)(x)
nn.BatchNorm2d | nn.BatchNorm2d(3)(images) ; nn.Conv1d | nn.Conv1d(3, 2, 3)(x[None])
nn.Conv2d | nn.Conv2d(3, 4, 3, padding=1)(images) ; nn.ConvTranspose2d | nn.ConvTranspose2d(3, 2, 2, stride=2)(images)
nn.CrossEntropyLoss | nn.CrossEntropyLoss()(x, k) ; nn.DataParallel | nn.DataParallel(net)(x)
nn.Dropout | nn.Dropout(0.4)(x) ; nn.ELU | nn.ELU()(x) ; nn.Embedding | nn.Embedding(4, 5)(k) ; nn.GELU | nn.GELU()(x)
nn.GLU | nn.GLU()(x) ; nn.GRU | nn.GRU(4, 5)(x[:, None]) ; nn.Identity | nn.Identity()(x)
nn.LSTM | nn.LSTM(4, 5, 2)(x[:, None]) ; nn.LSTMCell | nn.LSTMCell(4, 5)(x) ; nn.LayerNorm | nn.LayerNorm(4)(x)
nn.Linear | nn.Linear(4, 2)(x) ; nn.LogSoftmax | nn.LogSoftmax(dim=1)(x) ; nn.MSELoss | nn.MSELoss()(x, y)
nn.MaxPool2d | nn.MaxPool2d(2)(images) ; nn.Module | [isinstance(net, nn.Module), repr(nn.Module())]
nn.ModuleDict | repr(nn.ModuleDict({'a': nn.ReLU(), 'b': nn.Linear(2, 3)}))
nn.ModuleList | [repr(m := nn.ModuleList([nn.Linear(2, 3), nn.ReLU()])), len(m), len(list(m.parameters()))]
nn.NLLLoss | nn.NLLLoss()(x.log_softmax(1), k)
nn.Parameter | [nn.Parameter(x).requires_grad, repr(nn.Parameter(k.float()))]
nn.ParameterList | repr(nn.ParameterList([nn.Parameter(x)])) ; nn.RMSNorm | nn.RMSNorm(4)(x)
nn.RNN | nn.RNN(4, 5)(x[:, None]) ; nn.ReLU | nn.ReLU()(x)
nn.Sequential | [nn.Sequential(nn.Linear(4, 2), nn.Tanh())(x), repr(nn.Sequential(nn.ReLU()))]
nn.SiLU | nn.SiLU()(x) ; nn.Sigmoid | nn.Sigmoid()(x) ; nn.Softmax | nn.Softmax(dim=-1)(x)
nn.Softplus | nn.Softplus()(x) ; nn.Tanh | nn.Tanh()(x)
nn.Transformer | nn.Transformer(4, 2, 1, 1, 8)(x[:, None], y[:, None])
nn.TransformerEncoder | nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2)(x[:, None])
nn.TransformerEncoderLayer | nn.TransformerEncoderLayer(4, 2, 8)(x[:, None])
nn.Module.apply | [n := [], net.apply(lambda m: n.append(type(m).__name__)), n][-1]
nn.Module.cuda | torch.cuda.is_available() and net.cuda()
nn.Module.eval | [net.eval().training, nn.Dropout(0.5).eval()(x)]
nn.Module.load_state_dict | [str(net.load_state_dict(net.state_dict())), outcome(lambda: net.load_state_dict({}))]
nn.Module.modules | [type(m).__name__ for m in nn.Sequential(net, nn.ReLU()).modules()]
nn.Module.named_modules | [n for n, _ in nn.Sequential(net, nn.ReLU()).named_modules()]
nn.Module.named_parameters | [(n, p) for n, p in net.named_parameters()]
nn.Module.parameters | list(net.parameters())
nn.Module.register_buffer | [net.register_buffer('b', v), net.b, list(net.state_dict())]
nn.Module.register_parameter | [net.register_parameter('p', nn.Parameter(v)), [n for n, _ in net.named_parameters()]]
nn.Module.state_dict | net.state_dict() ; nn.Module.to | [p.dtype for p in net.to(torch.float64).parameters()]
nn.Module.train | [net.train(False).training, net.train().training]
nn.Module.zero_grad | [net.zero_grad(), net.weight.grad] ; nn.functional.avg_pool2d | F.avg_pool2d(images, 2)
nn.functional.batch_norm | F.batch_norm(x, v, v.abs(), training=True)
nn.functional.binary_cross_entropy | F.binary_cross_entropy(x.sigmoid(), y.sigmoid())
nn.functional.binary_cross_entropy_with_logits | F.binary_cross_entropy_with_logits(x, y.sigmoid())
nn.functional.conv1d | F.conv1d(x[None], s[:, :3, None])
nn.functional.conv2d | F.conv2d(images, s[:2, :3, None, None], stride=2)
nn.functional.cross_entropy | [F.cross_entropy(x, k), F.cross_entropy(x, k, reduction='none')]
nn.functional.dropout | [F.dropout(x, 0.5), F.dropout(x, p=0.5, training=False)] ; nn.functional.elu | F.elu(x)
nn.functional.l1_loss | F.l1_loss(x, y) ; nn.functional.linear | F.linear(x, s, v)
nn.functional.log_softmax | F.log_softmax(x, dim=1) ; nn.functional.max_pool2d | F.max_pool2d(images, 2)
nn.functional.mse_loss | [F.mse_loss(x, y), F.mse_loss(x, y, reduction='sum')]
nn.functional.nll_loss | F.nll_loss(x.log_softmax(1), k) ; nn.functional.one_hot | [F.one_hot(k), F.one_hot(k, 7)]
nn.functional.pad | [F.pad(x, (1, 2)), F.pad(x, (0, 0, 1, 0), value=3)] ; nn.functional.relu | F.relu(x)
nn.functional.sigmoid | F.sigmoid(x) ; nn.functional.silu | F.silu(x)
nn.functional.smooth_l1_loss | F.smooth_l1_loss(x, y) ; nn.functional.softmax | F.softmax(x, dim=-1)
nn.functional.softplus | F.softplus(x) ; nn.functional.tanh | F.tanh(x)
nn.init.constant_ | nn.init.constant_(c, 0.3) ; nn.init.kaiming_normal_ | nn.init.kaiming_normal_(c)
nn.init.kaiming_uniform_ | nn.init.kaiming_uniform_(c, a=5 ** 0.5) ; nn.init.normal_ | nn.init.normal_(c, std=0.02)
nn.init.ones_ | nn.init.ones_(c) ; nn.init.orthogonal_ | nn.init.orthogonal_(c)
nn.init.uniform_ | nn.init.uniform_(c, -0.1, 0.1) ; nn.init.xavier_normal_ | nn.init.xavier_normal_(c)
nn.init.xavier_uniform_ | nn.init.xavier_uniform_(c, gain=2) ; nn.init.zeros_ | nn.init.zeros_(c)
nn.utils.clip_grad_norm_ | [nn.utils.clip_grad_norm_(net.parameters(), 0.1), net.weight.grad]
nn.utils.weight_norm | [(w := nn.utils.weight_norm(net))(x), sorted(w.state_dict())]
nn.utils.rnn.PackedSequence | [isinstance(packed(torch), nn.utils.rnn.PackedSequence), tuple(packed(torch))]
nn.utils.rnn.pack_padded_sequence | tuple(nn.utils.rnn.pack_padded_sequence(x[:, :, None], [3, 3, 1, 1]))
nn.utils.rnn.pad_packed_sequence | nn.utils.rnn.pad_packed_sequence(packed(torch), batch_first=True)
nn.utils.rnn.pad_sequence | nn.utils.rnn.pad_sequence([v, v[:2]], batch_first=True, padding_value=-1)
"""
REST = """
amp.autocast | under(torch.amp.autocast('cpu', enabled=False), lambda: x @ s)
_C._LinAlgError | [issubclass(torch._C._LinAlgError, RuntimeError), outcome(lambda: torch.linalg.inv(s * 0))]
autograd.Function | doubled(torch, g) ; autograd.Function.apply | [doubled(torch, g).sum().backward(), g.grad]
autograd.Variable | torch.autograd.Variable(x, requires_grad=True)
autograd.functional.vjp | torch.autograd.functional.vjp(lambda t: t.exp(), x, y)
autograd.grad | torch.autograd.grad(g.pow(3).sum(), g)
autograd.gradcheck | torch.autograd.gradcheck(torch.tanh, (x.double().requires_grad_(),))
autograd.function.FunctionCtx.needs_input_grad | doubled(torch, g, lambda ctx: list(ctx.needs_input_grad))
autograd.function.FunctionCtx.save_for_backward | doubled(torch, g, lambda ctx: ctx.save_for_backward(x))
autograd.function.FunctionCtx.saved_tensors | doubled(torch, g, lambda ctx: list(ctx.saved_tensors))
backends.cudnn.benchmark | setattr(torch.backends.cudnn, 'benchmark', True)
backends.cudnn.enabled | [setattr(torch.backends.cudnn, 'enabled', False), setattr(torch.backends.cudnn, 'enabled', \
True)]
cuda.device_count | torch.cuda.device_count() ; cuda.is_available | torch.cuda.is_available()
cuda.manual_seed | torch.cuda.manual_seed(3) ; cuda.manual_seed_all | torch.cuda.manual_seed_all(3)
cuda.set_device | torch.cuda.is_available() and torch.cuda.set_device(0)
cuda.synchronize | torch.cuda.is_available() and torch.cuda.synchronize()
distributions.Categorical | [(d := torch.distributions.Categorical(logits=x)).sample(), d.log_prob(k), d.entropy(), \
str(d)]
distributions.Normal | [(d := torch.distributions.Normal(x, y.abs())).rsample(), d.log_prob(y), d.entropy()]
distributions.kl_divergence | torch.distributions.kl_divergence(torch.distributions.Normal(x, y.abs()), \
torch.distributions.Normal(0.0, 1.0))
distributions.Normal.log_prob | torch.distributions.Normal(0.0, 2.0).log_prob(x)
distributions.Normal.rsample | torch.distributions.Normal(g, 1.0).rsample((2,))
distributions.Normal.sample | torch.distributions.Normal(x, 1.0).sample() ; jit.script | torch.jit.script(net)(x)
linalg.norm | [torch.linalg.norm(x), torch.linalg.norm(x, dim=1)]
linalg.solve | torch.linalg.solve(s + 4 * torch.eye(4), v) ; linalg.vecdot | torch.linalg.vecdot(x, y)
optim.Adadelta | steps(torch.optim.Adadelta(net.parameters()))
optim.Adam | steps(torch.optim.Adam(net.parameters(), lr=0.1))
optim.AdamW | steps(torch.optim.AdamW(net.parameters()))
optim.RMSprop | steps(torch.optim.RMSprop(net.parameters()))
optim.SGD | steps(torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9))
optim.LBFGS | [(o := torch.optim.LBFGS(net.parameters(), max_iter=4)).step(lambda: [o.zero_grad(), (l := \
net(x).square().sum()).backward(), l][-1]), net.weight]
optim.Optimizer.load_state_dict | [opt.load_state_dict(opt.state_dict()), opt.state_dict()['param_groups'][0]['lr']]
optim.Optimizer.param_groups | [(p['lr'], p['momentum'], len(p['params'])) for p in opt.param_groups]
optim.Optimizer.state_dict | [opt.step(), opt.state_dict()] ; optim.Optimizer.step | [opt.step(), net.weight]
optim.Optimizer.zero_grad | [opt.zero_grad(), net.weight.grad]
optim.lr_scheduler.StepLR | [(l := torch.optim.lr_scheduler.StepLR(opt, 2, gamma=0.1)).get_last_lr(), opt.step(), \
l.step(), l.step(), l.get_last_lr()]
optim.lr_scheduler.LRScheduler.step | [l := torch.optim.lr_scheduler.StepLR(opt, 1), opt.step(), l.step(), \
opt.param_groups[0]['lr']][-1]
utils.data.DataLoader | list(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, k), batch_size=2, \
shuffle=True))
utils.data.Dataset | issubclass(torch.utils.data.TensorDataset, torch.utils.data.Dataset)
utils.data.RandomSampler | list(torch.utils.data.RandomSampler(range(9)))
utils.data.TensorDataset | torch.utils.data.TensorDataset(x, k)[1]
autograd.profiler.profile | under(torch.autograd.profiler.profile(), lambda: x + y)
"""
SYNTAX = """
operator Mult | [x * y, 2 * x, x * 2] ; operator Add | [x + y, 1 + x] ; operator Sub | [x - y, 1 - x]
operator Div | [x / y, 1 / x, k / 2] ; operator unary USub | -x ; operator inplace Add | [c := c + 0, c.__iadd__(y)]
operator Pow | [x ** 2, 2 ** x, x.abs() ** 0.5] ; operator cmp Lt | [x < y, x < 0]
operator cmp Eq | [k == 1, x == y] ; operator MatMult | [x @ s, x @ v] ; operator cmp Gt | [x > y, x > 0]
operator inplace Mult | c.__imul__(3) ; operator cmp LtE | x <= y ; operator unary Not | [not x.sum(), not k[0]]
operator cmp GtE | x >= 0 ; operator inplace Sub | c.__isub__(y) ; operator cmp NotEq | x != y
operator unary Invert | ~(x > 0) ; operator inplace Div | c.__itruediv__(2) ; operator BitAnd | (x > 0) & (y > 0)
indexing x[int or ?] | [x[1], x[-1], x[1][2]] ; indexing x[a:b] | [x[1:3], x[:-1]]
indexing x[i,j,..] | [x[1, 2], x[:, 1], x[0, 1:3], x[k % 3, k]]
indexing assign x[int or ?] | [c.__setitem__(1, 2.0), c]
indexing assign x[i,j,..] | [c.__setitem__((1, 2), 5), c.__setitem__((slice(None), 0), y[:, 0]), c]
indexing assign x[a:b] | [c.__setitem__(slice(0, 2), y[1:]), c] ; indexing x[tensor] | [x[k % 3], x[k[0] % 3]]
indexing x[...] | [x[...], x[..., 0]] ; indexing assign x[mask] | [c.__setitem__(c > 0, 0.0), c]
indexing x[...] op= v | [c[1].__iadd__(1), c]
indexing assign x[tensor] | [c.__setitem__(torch.tensor([0, 2]), y[:2]), c] ; indexing x[None] | [x[None], x[:, None]]
indexing assign x[a:b:s] | [c.__setitem__(slice(None, None, 2), 7), c]
indexing assign x[...] | [c.__setitem__(..., y), c]
indexing assign x[ndarray] | [c.__setitem__(np.array([0, 2]), 1.0), c] ; indexing x[list] | [x[[0, 2]], x[:, [1, 1]]]
indexing x[a:b:s] | x[::2, 1::2] ; indexing x[ndarray] | x[np.array([2, 0])]
indexing x[mask] | [x[x > 0], x[(x > 0).any(1)]]
"""
KEYWORDS = """
keyword lr | steps(torch.optim.SGD(net.parameters(), lr=0.1)) ; keyword dim | x.sum(dim=1)
keyword dtype | torch.ones(2, dtype=torch.int64) ; keyword device | torch.ones(2, device='cpu')
keyword requires_grad | torch.ones(2, requires_grad=True) ; keyword bias | nn.Linear(4, 2, bias=False)(x)
keyword batch_size | len(loader(torch, batch_size=2)) ; keyword shuffle | list(loader(torch, shuffle=True))
keyword keepdim | x.mean(1, keepdim=True) ; keyword p | nn.Dropout(p=0.3)(x)
keyword num_workers | list(loader(torch, num_workers=0))
keyword kernel_size | nn.Conv2d(3, 2, kernel_size=3)(images) ; keyword padding | nn.Conv2d(3, 2, 3, padding=1)(images)
keyword min | x.clamp(min=0.1) ; keyword reduction | F.mse_loss(x, y, reduction='sum')
keyword eps | nn.LayerNorm(4, eps=1e-3)(x) ; keyword dataset | len(torch.utils.data.DataLoader(dataset=[1, 2, 3]))
keyword size | torch.zeros(size=(2, 3))
keyword momentum | steps(torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9))
keyword num_samples | torch.multinomial(x.abs(), num_samples=1)
keyword dropout | nn.LSTM(4, 5, 2, dropout=0.5)(x[:, None]) ; keyword stride | nn.Conv2d(3, 2, 2, stride=2)(images)
keyword std | torch.normal(mean=0.0, std=2.0, size=(3,))
keyword batch_first | nn.GRU(4, 5, batch_first=True)(x[None])
keyword betas | steps(torch.optim.Adam(net.parameters(), betas=(0.5, 0.9)))
keyword weight_decay | steps(torch.optim.Adam(net.parameters(), weight_decay=0.1))
keyword training | F.dropout(x, training=False) ; keyword hidden_size | nn.RNN(4, hidden_size=3)(x[:, None])
keyword input_size | nn.LSTM(input_size=4, hidden_size=3)(x[:, None]) ; keyword mean | torch.normal(mean=x, std=1.0)
keyword inplace | nn.ReLU(inplace=True)(c) ; keyword num_layers | nn.GRU(4, 5, num_layers=2)(x[:, None])
keyword create_graph | torch.autograd.grad(torch.autograd.grad(g.pow(3).sum(), g, create_graph=True)[0].sum(), g)
keyword retain_graph | [(z := g.exp().sum()).backward(retain_graph=True), z.backward(), g.grad]
keyword ignore_index | F.cross_entropy(x, k, ignore_index=1) ; keyword k | x.topk(k=2)
keyword bidirectional | nn.LSTM(4, 5, bidirectional=True)(x[:, None])
keyword gamma | torch.optim.lr_scheduler.StepLR(opt, 1, gamma=0.5).get_last_lr() ; keyword max | x.clamp(max=0.1)
keyword generator | torch.randn(3, generator=torch.Generator().manual_seed(2))
keyword groups | nn.Conv2d(3, 6, 1, groups=3)(images) ; keyword index | x.gather(1, index=k[:, None])
keyword in_features | nn.Linear(in_features=4, out_features=2)(x)
keyword out_features | nn.Linear(4, out_features=3)(x) ; keyword pin_memory | len(loader(torch, pin_memory=False))
keyword alpha | torch.add(x, y, alpha=3) ; keyword nonlinearity | nn.RNN(4, 5, nonlinearity='relu')(x[:, None])
keyword dilation | nn.Conv2d(3, 2, 2, dilation=2)(images)
keyword loc | torch.distributions.Normal(loc=x, scale=1.0).sample() ; keyword descending | x.sort(descending=True)
keyword replacement | x.abs().multinomial(3, replacement=True)
keyword map_location | reloaded(torch, x, map_location='cpu')
keyword in_channels | nn.Conv2d(in_channels=3, out_channels=2, kernel_size=1)(images)
keyword out_channels | nn.Conv1d(3, out_channels=2, kernel_size=2)(x[None])
keyword step_size | torch.optim.lr_scheduler.StepLR(opt, step_size=2).get_last_lr()
keyword grad_outputs | torch.autograd.grad(g * 2, g, grad_outputs=y)
keyword scale | torch.distributions.Normal(0.0, scale=y.abs()).sample()
keyword volatile | outcome(lambda: torch.autograd.Variable(x, volatile=True).requires_grad)
keyword drop_last | len(loader(torch, batch_size=2, drop_last=True))
keyword enforce_sorted | tuple(nn.utils.rnn.pack_padded_sequence(x[:, :, None], [1, 3, 2, 3], enforce_sorted=False))
keyword sampler | list(loader(torch, sampler=[2, 0])) ; keyword steps | torch.linspace(0, 1, steps=5)
keyword value | F.pad(x, (1, 1), value=2.0) ; keyword n | x.cumsum(0).diff(n=2)
keyword keepdims | x.sum(1, keepdims=True) ; keyword affine | nn.BatchNorm1d(4, affine=False)(x)
keyword enabled | under(torch.autocast('cpu', enabled=False), lambda: x)
keyword weight | F.cross_entropy(x, k, weight=v.abs()) ; keyword size_average | F.mse_loss(x, y, size_average=False)
keyword dims | x.flip(dims=(0,)) ; keyword largest | x.topk(1, largest=False)
keyword a | nn.init.kaiming_uniform_(c, a=1) ; keyword high | torch.randint(high=5, size=(3,))
keyword low | torch.randint(low=2, high=5, size=(3,)) ; keyword mode | nn.init.kaiming_normal_(c, mode='fan_out')
keyword val | nn.init.constant_(c, val=2)
keyword allow_unused | torch.autograd.grad(g.sum(), [g, net.weight], allow_unused=True)
keyword params | steps(torch.optim.Adam(params=net.parameters()))
keyword return_counts | k.unique(return_counts=True) ; keyword side | torch.searchsorted(v.sort()[0], x, side='right')
"""
# Names that fewer programs use. u is x between 0 and 1, m a mask, i three indices below 3.
LAYERS_TAIL = """
nn.AdaptiveAvgPool3d | nn.AdaptiveAvgPool3d((2, 1, 3))(cube) ; nn.AvgPool3d | nn.AvgPool3d(2, padding=1)(cube)
nn.ConstantPad3d | nn.ConstantPad3d(1, 2.0)(cube) ; nn.ConvTranspose3d | nn.ConvTranspose3d(2, 3, 2, stride=2)(cube)
nn.CrossMapLRN2d | nn.CrossMapLRN2d(3)(images) ; nn.InstanceNorm3d | nn.InstanceNorm3d(2)(cube)
nn.LazyBatchNorm1d | nn.LazyBatchNorm1d()(x) ; nn.LazyBatchNorm2d | nn.LazyBatchNorm2d()(images)
nn.LazyBatchNorm3d | nn.LazyBatchNorm3d()(cube) ; nn.LazyConvTranspose3d | nn.LazyConvTranspose3d(3, 2)(cube)
nn.LazyInstanceNorm1d | nn.LazyInstanceNorm1d()(x[None]) ; nn.LazyInstanceNorm3d | nn.LazyInstanceNorm3d()(cube)
nn.MaxUnpool1d | nn.MaxUnpool1d(2)(*nn.MaxPool1d(2, return_indices=True)(x[None]))
nn.MaxUnpool2d | nn.MaxUnpool2d(2)(*nn.MaxPool2d(2, return_indices=True)(images))
nn.MaxUnpool3d | nn.MaxUnpool3d(2)(*nn.MaxPool3d(2, return_indices=True)(cube))
nn.RNNBase | issubclass(nn.LSTM, nn.RNNBase) ; nn.RNNCellBase | issubclass(nn.GRUCell, nn.RNNCellBase)
nn.SyncBatchNorm | repr(nn.SyncBatchNorm(3)) ; nn.ZeroPad3d | nn.ZeroPad3d(1)(cube)
nn.UninitializedParameter | repr(type(nn.LazyLinear(3).weight).__name__)
nn.functional.adaptive_avg_pool1d | F.adaptive_avg_pool1d(x[None], 3)
nn.functional.adaptive_avg_pool2d | F.adaptive_avg_pool2d(images, (2, 3))
nn.functional.adaptive_avg_pool3d | F.adaptive_avg_pool3d(cube, 2)
nn.functional.adaptive_max_pool1d | F.adaptive_max_pool1d(x[None], 3, return_indices=True)
nn.functional.adaptive_max_pool2d | F.adaptive_max_pool2d(images, 2)
nn.functional.adaptive_max_pool3d | F.adaptive_max_pool3d(cube, 2)
nn.functional.avg_pool1d | F.avg_pool1d(x[None], 2) ; nn.functional.avg_pool3d | F.avg_pool3d(cube, 2)
nn.functional.channel_shuffle | F.channel_shuffle(s[None, :, :, None], 2)
nn.functional.conv_transpose1d | F.conv_transpose1d(x[None], s[:3, :2, None])
nn.functional.conv_transpose2d | F.conv_transpose2d(images, s[:3, :2, None, None], stride=2)
nn.functional.conv_transpose3d | F.conv_transpose3d(cube, s[:2, :3, None, None, None])
nn.functional.dropout1d | F.dropout1d(x[None], 0.5) ; nn.functional.dropout2d | F.dropout2d(images, 0.5)
nn.functional.dropout3d | F.dropout3d(cube, 0.5)
nn.functional.embedding_bag | F.embedding_bag(k, s, torch.tensor([0, 2]), mode='sum')
nn.functional.fold | F.fold(s[None], (3, 3), (2, 2))
nn.functional.fractional_max_pool2d | F.fractional_max_pool2d(images, 2, output_size=3) ; nn.functional.glu | F.glu(x)
nn.functional.hardshrink | F.hardshrink(x) ; nn.functional.local_response_norm | F.local_response_norm(images, 2)
nn.functional.lp_pool1d | F.lp_pool1d(x[None].abs(), 2, 2) ; nn.functional.lp_pool2d | F.lp_pool2d(images.abs(), 2, 2)
nn.functional.lp_pool3d | F.lp_pool3d(cube.abs(), 2, 2)
nn.functional.max_pool1d_with_indices | F.max_pool1d_with_indices(x[None], 2)
nn.functional.max_pool2d_with_indices | F.max_pool2d_with_indices(images, 2)
nn.functional.max_pool3d | F.max_pool3d(cube, 2)
nn.functional.max_pool3d_with_indices | F.max_pool3d_with_indices(cube, 2)
nn.functional.max_unpool1d | F.max_unpool1d(*F.max_pool1d_with_indices(x[None], 2), 2)
nn.functional.max_unpool3d | F.max_unpool3d(*F.max_pool3d_with_indices(cube, 2), 2)
nn.functional.pixel_shuffle | F.pixel_shuffle(s[None, :, :, None], 2)
nn.functional.pixel_unshuffle | F.pixel_unshuffle(images, 2) ; nn.functional.prelu | F.prelu(x, v)
nn.functional.relu_ | F.relu_(c) ; nn.functional.rrelu | F.rrelu(x, training=True)
nn.functional.rrelu_ | F.rrelu_(c) ; nn.functional.softshrink | F.softshrink(x, 0.2)
nn.functional.tanhshrink | F.tanhshrink(x) ; nn.functional.upsample | F.upsample(images, scale_factor=2)
nn.functional.upsample_nearest | F.upsample_nearest(images, scale_factor=2)
nn.functional.upsample_bilinear | F.upsample_bilinear(images, scale_factor=2)
nn.init.xavier_normal | nn.init.xavier_normal(c) ; nn.init.kaiming_uniform | nn.init.kaiming_uniform(c)
nn.init.kaiming_normal | nn.init.kaiming_normal(c) ; nn.init.dirac | nn.init.dirac(torch.ones(3, 2, 3))
nn.utils.clip_grad_norm | nn.utils.clip_grad_norm(net.parameters(), 0.1)
nn.utils.skip_init | nn.utils.skip_init(nn.Linear, 3, 4).weight.shape
nn.utils.fuse_conv_bn_eval | nn.utils.fuse_conv_bn_eval(nn.Conv2d(3, 2, 3).eval(), nn.BatchNorm2d(2).eval())(images)
nn.utils.rnn.invert_permutation | nn.utils.rnn.invert_permutation(torch.tensor([2, 0, 1]))
"""
REST_TAIL = """
utils.data.Subset | list(torch.utils.data.Subset(range(10, 20), [3, 5]))
utils.data.ConcatDataset | [(d := torch.utils.data.ConcatDataset([range(3), range(7, 9)]))[4], d[-1], len(d), \
d.cumulative_sizes]
utils.data.ChainDataset | list(torch.utils.data.ChainDataset([stream(torch, 3), stream(torch, 2)]))
utils.data.Sampler | issubclass(torch.utils.data.RandomSampler, torch.utils.data.Sampler)
utils.data.random_split | [list(d) for d in torch.utils.data.random_split(range(10), [7, 3])]
optim.swa_utils | averaged(torch, net, opt)
distributions.Distribution | isinstance(torch.distributions.Normal(0.0, 1.0), torch.distributions.Distribution)
distributions.AbsTransform | torch.distributions.AbsTransform()(x)
distributions.PowerTransform | both_ways(torch.distributions.PowerTransform(torch.tensor(2.0)), x.abs())
distributions.SigmoidTransform | both_ways(torch.distributions.SigmoidTransform(), x)
distributions.SoftmaxTransform | torch.distributions.SoftmaxTransform()(x)
distributions.ReshapeTransform | torch.distributions.ReshapeTransform((4,), (2, 2))(x)
distributions.LowerCholeskyTransform | torch.distributions.LowerCholeskyTransform()(s)
distributions.PositiveDefiniteTransform | torch.distributions.PositiveDefiniteTransform()(s)
distributions.IndependentTransform | \
both_ways(torch.distributions.IndependentTransform(torch.distributions.ExpTransform(), 1), x)
distributions.identity_transform | torch.distributions.identity_transform(x)
distributions.Transform | issubclass(torch.distributions.ExpTransform, torch.distributions.Transform)
linalg.householder_product | torch.linalg.householder_product(s[:, :2], u[0, :2]).contiguous()
orgqr | torch.orgqr(s[:, :2], u[0, :2]).contiguous()
linalg.lu_factor_ex | [t.contiguous() for t in torch.linalg.lu_factor_ex(s)]
linalg.solve_ex | tuple(torch.linalg.solve_ex(s, v))
linalg.tensorsolve | torch.linalg.tensorsolve(s.view(2, 2, 2, 2), s[:2, :2])
autograd.set_grad_enabled | under(torch.autograd.set_grad_enabled(False), lambda: (g * 2).requires_grad)
amp.is_autocast_available | torch.amp.is_autocast_available('cpu')
cuda.memory_allocated | torch.cuda.memory_allocated() ; cuda.max_memory_allocated | torch.cuda.max_memory_allocated()
cuda.empty_cache | torch.cuda.empty_cache() ; cuda.current_device | [outcome(torch.cuda.current_device)]
cuda.get_device_name | [outcome(torch.cuda.get_device_name)]
cuda.get_device_properties | [outcome(lambda: torch.cuda.get_device_properties(0))]
special.modified_bessel_i0 | torch.special.modified_bessel_i0(x)
special.modified_bessel_i1 | torch.special.modified_bessel_i1(x) ; special.digamma | torch.special.digamma(u)
GradScaler | scaled(torch, net, opt) ; jit.trace | torch.jit.trace(net, x)(x)
typename | [torch.typename(x), torch.typename(k)] ; get_default_dtype | torch.get_default_dtype()
set_default_dtype | [torch.set_default_dtype(torch.float64), torch.zeros(2), torch.set_default_dtype(torch.float32)]
set_default_tensor_type | [torch.set_default_tensor_type('torch.DoubleTensor'), torch.zeros(1), \
torch.set_default_tensor_type('torch.FloatTensor')]
use_deterministic_algorithms | [torch.use_deterministic_algorithms(True), \
torch.are_deterministic_algorithms_enabled(), torch.use_deterministic_algorithms(False)]
set_float32_matmul_precision | torch.set_float32_matmul_precision('highest')
get_default_device | str(torch.get_default_device())
"""
TENSOR_TAIL = """
addbmm | torch.addbmm(y, x[None], s[None]) ; Tensor.addbmm_ | c.addbmm_(x[None], s[None], alpha=2)
Tensor.addmv_ | v.clone().addmv_(s, v) ; Tensor.addr_ | s.clone().addr_(v, v) ; atleast_2d | torch.atleast_2d(v)
atleast_3d | torch.atleast_3d(x) ; block_diag | torch.block_diag(x, s)
bitwise_and | [torch.bitwise_and(k, 3), k & 2] ; bitwise_or | torch.bitwise_or(k, 4)
bitwise_xor | torch.bitwise_xor(k, 3) ; bitwise_left_shift | torch.bitwise_left_shift(k, 2)
bitwise_right_shift | torch.bitwise_right_shift(k, 1) ; Tensor.bitwise_and_ | k.clone().bitwise_and_(3)
Tensor.bitwise_or_ | k.clone().bitwise_or_(3) ; Tensor.bitwise_xor_ | k.clone().bitwise_xor_(3)
Tensor.bitwise_not_ | k.clone().bitwise_not_() ; Tensor.bitwise_left_shift_ | k.clone().bitwise_left_shift_(2)
Tensor.bitwise_right_shift_ | k.clone().bitwise_right_shift_(1) ; blackman_window | torch.blackman_window(7)
hamming_window | torch.hamming_window(7, periodic=False) ; Tensor.char | k.char()
clamp_max | torch.clamp_max(x, 0.1) ; clamp_min | torch.clamp_min(x, 0.1) ; corrcoef | torch.corrcoef(x)
cov | torch.cov(x, correction=0) ; conj | torch.conj(x) ; dist | torch.dist(x, y) ; Tensor.get_device | x.get_device()
Tensor.is_cpu | x.is_cpu ; Tensor.is_meta | x.is_meta ; Tensor.is_sparse | x.is_sparse
Tensor.is_quantized | x.is_quantized ; is_same_size | torch.is_same_size(x, y) ; isposinf | torch.isposinf(x / 0)
isneginf | torch.isneginf(x / 0) ; isreal | torch.isreal(x) ; Tensor.imag | [outcome(lambda: x.imag)]
logaddexp2 | torch.logaddexp2(x, y) ; Tensor.mH | s.mH ; msort | torch.msort(x) ; nanmean | torch.nanmean(x)
nanquantile | torch.nanquantile(x, 0.3) ; Tensor.new_empty_strided | x.new_empty_strided((2, 3), (1, 2)).stride()
poisson | torch.poisson(u * 9) ; resolve_conj | torch.resolve_conj(x) ; Tensor.swapdims_ | c.swapdims_(0, 1)
unsafe_chunk | torch.unsafe_chunk(x, 2) ; unsafe_split | torch.unsafe_split(x, 2) ; Tensor.tril_ | s.clone().tril_()
Tensor.cumprod_ | c.cumprod_(1) ; Tensor.renorm_ | c.renorm_(2, 0, 0.5)
is_storage | torch.is_storage(x.untyped_storage()) ; is_conj | torch.is_conj(x) ; is_neg | torch.is_neg(x)
lgamma | torch.lgamma(u) ; digamma | torch.digamma(u) ; HalfTensor | torch.HalfTensor([1, 2])
IntTensor | torch.IntTensor([1, 2]) ; ShortTensor | torch.ShortTensor([3]) ; CharTensor | torch.CharTensor([3])
BoolTensor | torch.BoolTensor([True]) ; BFloat16Tensor | torch.BFloat16Tensor([1.5])
as_strided_copy | torch.as_strided_copy(x, (2, 2), (1, 4)) ; unfold_copy | torch.unfold_copy(v, 0, 2, 1)
split_with_sizes_copy | torch.split_with_sizes_copy(x, [1, 2])
"""
_ALIASES = "absolute arccos:u arccosh:u+1 arcsinh arctan arctanh:u fix negative"
_PAIRS = "arctan2 divide greater_equal greater less less_equal multiply not_equal subtract true_divide"
_IN_PLACE = """
    abs absolute acos:u acosh:u+1 arccos:u arccosh:u+1 arcsin:u arcsinh arctan arctanh:u asin:u asinh atan atanh:u ceil
    clip:x(0,1) cos cosh deg2rad digamma:u erf erfc erfinv:u exp2 expm1 fix floor frac lgamma:u log10:u log1p:u log2:u
    log:u logical_not logit:u nan_to_num negative rad2deg reciprocal relu round rsqrt:u sgn sign sinc sinh sqrt:u square
    tan trunc mvlgamma:u+3(2) arctan2:x(y) atan2:x(y) copysign:x(y) divide:x(y) float_power:u.double()(2)
    floor_divide:x(y) ge:x(y) greater:x(y) greater_equal:x(y) gt:x(y) heaviside:x(y) hypot:x(y) le:x(y) less:x(y)
    less_equal:x(y) logical_or:x(y) logical_xor:x(y) lt:x(y) multiply:x(y) ne:x(y) nextafter:x(y) not_equal:x(y)
    pow:u(2) remainder:x(y) subtract:x(y) true_divide:x(y) gcd:k(k+2) lcm:k(k+2) ldexp:x(k[:,None])
"""


def _changed():
    """Rows of methods that change their tensor, and of second names."""
    for word in _IN_PLACE.split():
        name, _, rest = word.partition(":")
        of, _, given = rest.partition("(")
        given = f"({given}" if given else "()"
        yield (
            f"Tensor.{name}_",
            f"({of or 'x'}).clone().{name}_{given}" if "double()" not in rest else (f"u.double().{name}_(2)"),
        )
    for word in _ALIASES.split():
        name, _, of = word.partition(":")
        yield name, f"[torch.{name}({of or 'x'}), ({of or 'x'}).{name}()]"
    for name in _PAIRS.split():
        yield name, f"[torch.{name}(x, y), x.{name}(y)]"


# What is out of scope: the line raises an error that names what is not there.
OUT_OF_SCOPE = """
Tensor.to_sparse | x.to_sparse() ; fft.rfft | torch.fft.rfft(v) ; fft.irfft | torch.fft.irfft(v)
"""


def rows(text):
    """[(name, expression)]"""
    parts = [part.partition(" | ") for line in text.strip().splitlines() for part in line.split(" ; ")]
    return [(name.strip(), expression.strip()) for name, _, expression in parts]


ROWS = rows(TENSOR) + rows(TORCH) + rows(NN) + rows(REST) + rows(SYNTAX) + rows(KEYWORDS)
RARE = rows(LAYERS_TAIL) + rows(REST_TAIL) + rows(TENSOR_TAIL) + list(_changed())
