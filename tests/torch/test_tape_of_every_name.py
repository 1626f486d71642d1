"""The tape of every function that both libraries have, called with every form of arguments that PyTorch takes.

tape_rows.py has lines that somebody thought of. Here nobody did: each public name is called with each form of FORMS.
Where PyTorch gives tensors, these require gradients here if they do there, and their gradient functions lead to the
same functions, outputs and leaves.
"""

import functools
import math
import re
import warnings

import pytest

from tests.torch.compare import REF, SUT

PLACES = {
    "Tensor": lambda m: m.Tensor,
    "torch": lambda m: m,
    "functional": lambda m: m.nn.functional,
    "special": lambda m: m.special,
    "linalg": lambda m: m.linalg,
}
# What changes the process, waits, or asks about the program and not about tensors.
NOT_CALLED = ("_", "set_", "get_", "is_", "has_", "use_", "autocast_", "register_", "manual_", "initial_", "random.")
NEVER_CALLED = {
    "seed", "save", "load", "compile", "from_file", "share_memory_", "backward", "retain_grad", "fork", "wait",
    "typename", "set_", "resize_", "resize_as_", "requires_grad_", "apply_", "map_", "map2_", "vmap", "module_load",
    "cuda",
}  # fmt: skip

_BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"]
OPERATORS = [f"__{how}{name}__" for name in _BINARY for how in ("", "i")]
OPERATORS += [f"__{name}__" for name in ["neg", "pos", "abs", "invert", "getitem", "eq", "ne", "lt", "le", "gt", "ge"]]

# The arguments of a call. Inputs are made for each call, in both libraries from the same numbers.
LEAVES = {"x": (3, 3), "z": (3, 3), "v": (3,), "w": (3,), "s": (), "row": (1, 3), "b": (2, 3, 3), "y": (2, 2, 6)}
LEAVES |= {"im": (1, 4, 4, 4), "k": (4, 4, 2, 2), "vol": (1, 1, 4, 4, 4)}
WRITTEN = {"x", "v", "row", "y", "im", "vol"}  # these are no leaves, so that functions in place may write to them
OTHERS = {
    "p": lambda m: data(m, 3, 3).clone(),  # requires no gradients
    "i": lambda m: m.tensor([0, 2]),
    "i3": lambda m: m.tensor([0, 1, 2]),
    "ii": lambda m: m.tensor([[0, 1, 2], [2, 1, 0], [1, 1, 1]]),
    "mask": lambda m: m.tensor([[True, False, True]] * 3),
    "f64": lambda m: m.float64,
    "signs": lambda m: m.tensor([1.0, -1.0, 1.0]),
}
FORMS = """
x | v | s | row | y | im | b | vol | p | x,z | x,p | p,z | x,w | x,s | s,x | v,w | v,z | x,v | b,x | b,b | y,y | x,2
x,0.5 | 2,x | v,2 | s,2 | row,0 | row,1 | row,0,1 | x,0 | x,1 | x,-1 | x,0,1 | x,(0,1) | x,0,True | x,1,0,2 | x,(9,)
x,3,3 | x,(3,3),(3,1) | x,(1,2) | x,1,0 | x,0.5,True | x,-1,2,0 | b,0,1,2 | b,2,0,1 | b,(2,0,1) | x,i | x,0,i | x,0,ii
x,0,ii,z | x,0,ii,1.0 | x,0,i,z[:2] | x,0,i,s | x,0,i,1.0 | x,ii | x,ii,z | x,1,ii,p | x,i3 | x,0,ii,z,'sum'
x,0,i3,z,'mean' | x,i3,w | x,mask | x,mask,1.0 | x,mask,z | x,mask,s | x,mask,w | mask,x,z | mask,x,2.0 | mask,2.0,x
x,(i3,),z | x,(i3,i3),w | x,(i3,),p | x,(i3,i3),s | x,z,z | x,z,p | x,z,w | x,z,s | x,z,2 | x,z,1,2 | x,0.2,0.7
x,s,s | x,p,z | v,z,w | x,v,w | b,b,b | w,z,w | x,b,b | x,z,signs | v,w,signs | p,z,w | x,z[0],z[0] | [x,z] | [x,z],1
[p,z] | x,z,0 | [v,w] | [x,b] | 'ij,jk->ik',x,z | 'ij,ij',x,p | 'ii',x | x,'fro' | x,'nuc' | im,2 | im,(2,2) | im,2,2
im,2,1 | im,k | y,2 | y,2,1 | vol,2 | im,(1,1) | im,(1,1,1,1) | y,k[0,:2,:,:1] | x,z[:,:,None] | im,k.transpose(0,1)
y,(1,1),'replicate' | x,(3,) | x,(3,),w,w | im,None,None,None,None,True | im,z.new_zeros(4),z.new_ones(4)
im,z.new_zeros(4),z.new_ones(4),k[:,0,0,0],k[:,1,1,1] | x,dim=0 | x,dim=(0,1) | x,dim=0,keepdim=True | x,p=0.5
x,inplace=True | x,dtype=f64 | x,0,dtype=f64 | x,keepdim=True | x,z,rounding_mode='floor' | x,z,rounding_mode='trunc'
x,2,rounding_mode='floor' | x,z,reduction='none' | x,z,reduction='sum' | x,i3,reduction='none' | x,z,alpha=2
x,2,alpha=2 | x,z,z,value=2 | x,z,z,beta=2 | x,min=0.1 | x,max=z | x,dim=0,unbiased=False | x,correction=0
x,diagonal=1 | x,offset=1 | x,z,dim=0 | x,z,upper=True | x,upper=True | x,decimals=1 | x,stable=True | ii,x | ii,z,i
x,x,x,None | im,2,return_indices=True | y,2,return_indices=True | x,return_inverse=True | x,dim=0,return_inverse=True
x.t() | x.t(),z | x[0],w | x[1:],2 | x,0,ii,z,reduce='add' | x,0,i,z[:2],alpha=2 | 0.5,x | x,0,2 | x,1,2 | x,2,0
x,2,0,1 | x,2,0,1.0 | x,[1,2] | x,0,[1,2] | x,[1,2],0 | [x,z],0 | x,1.5 | im,k,None,2 | im,None,2 | x,p=1 | x,f64
x,z,dim=1 | x,z,upper=False | x,True | x,return_counts=True | x,descending=True | y,0 | y,-1 | y,(0,2) | y,1,2 | b.mT
b.mT,x | x,b | v,b | b,v | b,w | y,y.mT | im.mT,2 | x.t(),0 | x.t(),2 | x.t(),(9,) | x.t(),z.t() | x[:,1:],2 | x[::2]
row,z | row,w | s,s | s,0 | x.t(),0,1 | b.mT,0,1,2 | b.mT,(2,0,1) | x.half() | x.half(),z | x.half(),z.half()
x.double(),z | x,z.double() | x,i3.int() | v,0 | v,(3,1) | v,3,1 | v,i | v,0,i | im.transpose(1,3)
im.transpose(1,3),2 | im[:,:,1:],2 | im,k,k[:,0,0,0] | im,k,k[:,0,0,0],2 | im,k,k[:,0,0,0],1,'same' | im,k,None,1,1
im[0],k | y,2,2,1 | im,2,2,1
x,None | x,() | x,decimals=0 | x,z,reduction='mean' | x,z,z,reduction='none' | x,z,'sum' | x,0,keepdim=True
x,dim=1,keepdim=True | x,1,True | x,2,0,True | x,2,1,True
"""
FORMS = [form.strip() for line in FORMS.strip().splitlines() for form in line.split(" | ")]


@functools.cache
def data(m, *sizes):
    """Between 0 and 1, and as a matrix positive definite."""
    count = math.prod(sizes)
    t = m.tensor([0.1 + (7 * k % 11) * 0.02 for k in range(count)]).reshape(sizes)
    return 0.5 * (t + t.mT) + 0.6 * m.eye(3) if sizes[-2:] == (3, 3) else t


class Inputs(dict):
    """What a form names is made when it is read, once for each call."""

    def __init__(self, m):
        super().__init__(float=float)
        self.module = m
        self.leaves = []  # alive, with their names

    def __missing__(self, name):
        made = self.leaf(name) if name in LEAVES else OTHERS[name](self.module)
        self[name] = made = made * 1 if name in WRITTEN else made
        return made

    def leaf(self, name):
        t = data(self.module, *LEAVES[name]).clone().requires_grad_()
        t.named = name
        self.leaves.append(t)
        return t


def public_names(place):
    mine, theirs = PLACES[place](SUT), PLACES[place](REF)
    for name in dir(theirs):
        if name in NEVER_CALLED or (name.startswith(NOT_CALLED) and name not in OPERATORS):
            continue
        try:
            found = callable(getattr(theirs, name)) and callable(getattr(mine, name))
        except (AttributeError, NotImplementedError):
            continue
        if found and not isinstance(getattr(theirs, name), type):
            yield name


def tensors(m, result):
    if isinstance(result, m.Tensor):
        return [result]
    if isinstance(result, dict):
        result = result.values()
    elif not isinstance(result, (tuple, list)):
        return []
    return [t for one in result for t in tensors(m, one)]


def tree(fn, depth=12):
    """As text: the name, and in brackets what it leads to; a leaf has the name of its input."""
    if fn is None:
        return "-"
    if fn.name() == "torch::autograd::AccumulateGrad":
        return getattr(fn.variable, "named", "leaf")
    below = (tree(f, depth - 1) + (f"#{number}" if number else "") for f, number in fn.next_functions if depth)
    return f"{fn.name()}({','.join(below)})"


def shown(t):
    return tree(t.grad_fn) + (f"#{t.output_nr}" if t.output_nr else "") if t.requires_grad else "no gradient"


CODE = {form: compile(f"f({form})", form, "eval") for form in FORMS}


def called(function, form, inputs):
    inputs["f"] = function
    return [shown(t) for t in tensors(inputs.module, eval(CODE[form], {}, inputs))]


# A pattern of calls that differ, and why. One that no call differs by any more is to be taken out.
COMPARES = "eq|ne|not_equal|lt|less|le|less_equal|gt|greater|ge|greater_equal|bernoulli"
KNOWN = {
    r".*\.(floor_divide_?|__i?floordiv__)\(.*": "it has the gradient 0 here; PyTorch's raises",
    r"torch\.remainder\((2|0\.5),x\)": "it has a gradient here; PyTorch's raises",
    r".*\.scatter_?\(x,0,ii,z,reduce='add'\)": "it has a gradient here; PyTorch's raises",
    r"Tensor\.logical_(and|or|xor|not)_\(.*": "PyTorch leaves the function of x, whose gradient is another",
    rf"Tensor\.({COMPARES})_\(ii,x\)": "integers require no gradients here, also after a write of what does",
    rf"Tensor\.({COMPARES})_\((x\.t\(\)|x\[0\]),.*\)": "what is written to a part of x leads to x alone",
    r"functional\.scaled_dot_product_attention\(x,b,b\)": "a matrix by a stack is multiplied the other way round there",
    r"functional\.multilabel_soft_margin_loss\(x,0,ii,1\.0\)": "a target that is no tensor",
}
# Names of which PyTorch takes calls that are refused here, and what those have in common.
REFUSED = {
    "numbers one after the other, the first of which is alpha": """
        add add_ sub sub_ subtract subtract_ __add__ __iadd__ __sub__ __isub__""",
    "dimensions or sizes one after the other": "count_nonzero dsplit hsplit vsplit squeeze squeeze_",
    "arguments of the function behind an operator": "__truediv__ __itruediv__ __floordiv__",
    "writes to a leaf, whose gradient they leave as it was": "logical_and_ logical_or_ logical_xor_ logical_not_",
    "results of no elements": """
        adaptive_avg_pool1d adaptive_max_pool1d adaptive_max_pool1d_with_indices adaptive_max_pool2d
        adaptive_max_pool2d_with_indices""",
    "arguments of other sizes, dtypes or values than are meant": """
        adaptive_avg_pool2d binary_cross_entropy_with_logits binomial cosine_similarity diff elu_ embedding_bag
        fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d
        fractional_max_pool3d_with_indices hardtanh_ histogram margin_ranking_loss matrix_exp matrix_rank nuclear_norm
        pinv soft_margin_loss take_along_dim to view_copy""",
    "complex numbers, and factors that are not there": "eig eigvals ldl_factor svd",
}


def differences():
    """(call, what PyTorch shows, what brisk does), of all calls that differ."""
    unused = {}  # inputs of calls that PyTorch refused
    for where, name in [(place, name) for place in PLACES for name in public_names(place)]:
        theirs, mine = (getattr(PLACES[where](m), name) for m in (REF, SUT))
        for form in FORMS:
            inputs = unused.pop(form, None) or Inputs(REF)
            try:
                wanted = called(theirs, form, inputs)
            except Exception:  # whatever PyTorch says to arguments that make no sense
                unused[form] = inputs
                continue
            try:
                got = called(mine, form, Inputs(SUT)) if wanted else wanted
            except Exception as error:
                got = error
            if got != wanted:
                yield f"{where}.{name}({form})", wanted, got


@pytest.fixture(scope="module")
def found():
    for m in (REF, SUT):
        m.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(differences())


def test_every_function_is_on_the_tape_as_in_pytorch(found):
    differ = [(call, wanted, got) for call, wanted, got in found if not isinstance(got, Exception)]
    met = {pattern for pattern in KNOWN for call, _, _ in differ if re.fullmatch(pattern, call)}
    unknown = [
        f"{call}\n  PyTorch: {wanted}\n  brisk:   {got}"
        for call, wanted, got in differ
        if not any(re.fullmatch(pattern, call) for pattern in KNOWN)
    ]
    assert not unknown, "\n".join(unknown)
    assert met == set(KNOWN), "these do not differ any more"


def test_no_function_refuses_what_pytorch_takes_but_those_that_are_known(found):
    known = {name for names in REFUSED.values() for name in names.split()}
    refused = {}
    for call, _, got in found:
        if isinstance(got, Exception):
            refused.setdefault(call.partition("(")[0].rpartition(".")[2], f"{call}: {type(got).__name__}: {got}")
    unknown = [call for name, call in refused.items() if name not in known]
    assert not unknown, "\n".join(unknown)
    assert known == set(refused), "these refuse nothing any more"
