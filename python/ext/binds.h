/* binds.h: the lists of functions and methods, one per topic, and what they share. */
#ifndef BK_BINDS_H
#define BK_BINDS_H
#include "args.h"
#include "core/tensor.h"
#include "out.h"

#define ROW_LISTS(X)                                                                                                   \
    X(elementwise)                                                                                                     \
    X(create)                                                                                                          \
    X(random)                                                                                                          \
    X(info)                                                                                                            \
    X(interop)                                                                                                         \
    X(autograd)                                                                                                        \
    X(saved)                                                                                                           \
    X(checkpoint)                                                                                                      \
    X(tape)                                                                                                            \
    X(index)                                                                                                           \
    X(shape)                                                                                                           \
    X(basics)                                                                                                          \
    X(reduce)                                                                                                          \
    X(sort)                                                                                                            \
    X(linalg)                                                                                                          \
    X(products)                                                                                                        \
    X(compose)                                                                                                         \
    X(files)

#define DECLARE_ROWS(topic)                                                                                            \
    extern const binding topic##_rows[];                                                                               \
    extern const size_t topic##_row_count;
ROW_LISTS(DECLARE_ROWS)
DECLARE_ROWS(functional) /* brisk._C._nn: what PyTorch has in nn.functional only */
DECLARE_ROWS(layers)     /* there too: layers with weights */
DECLARE_ROWS(losses)     /* there too */
DECLARE_ROWS(optim)      /* brisk._C._optim */
#undef DECLARE_ROWS
/* Takes back the names that rows of the op table give and PyTorch does not have. */
int elementwise_forget_names(PyObject *module);

/* self after an in-place op. status < 0 raises. */
PyObject *py_in_place(const arg *self, int status);
/* self after it took the result of an op, which is stolen. */
PyObject *py_write_back(const arg *self, bk_tensor *result);
/* The operand of a tensor or number argument; false with a Python exception set. */
bool py_operand(const arg *a, operand *out);
operand py_number_operand(const py_number *n);
/* Whether no argument but `written` itself is read from a part of its memory; false with a Python exception set. */
bool py_reads_apart(const bk_tensor *written, const arg *a, int n);

/* tensor.c */
int tensor_init(PyObject *module);
/* Adds attributes to a type that is made already. The definitions must live as long as the process. */
int py_add_attributes(PyTypeObject *type, PyGetSetDef *definitions);
/* A handle as an instance of a tensor type (a Parameter, say). Steals t. */
PyObject *py_wrap_as(PyTypeObject *type, bk_tensor *t);

/* getitem.c */
PyObject *py_tensor_getitem(PyObject *self, PyObject *key);
int py_tensor_setitem(PyObject *self, PyObject *key, PyObject *value);

/* bind_random.c, interop.c, storage_object.c */
int random_init(PyObject *module);
bk_generator *py_generator_of(const arg *a); /* of a Generator argument; NULL for the default one */
int interop_init(PyObject *module);
int storage_init(PyObject *module);
int info_init(PyObject *module);
/* legacy.c: Tensor(2, 3), Tensor([1, 2]) */
PyObject *py_make_subclass(const arg *a);
PyObject *py_legacy_new(const arg *a);
PyObject *py_tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs);
/* storage_object.c */
PyObject *py_untyped_storage(const arg *a);
PyObject *py_tensor_on_storage(const arg *a);
PyObject *py_storage_from_bytes(const arg *a);
/* The evaluated memory of a storage object: 1; 0 when o is none; -1 with an exception set. */
int py_storage_bytes(PyObject *o, const void **data, size_t *count);

/* interop.c */
extern PyBufferProcs py_tensor_buffer;
/* bind_index.c: where(condition) */
PyObject *py_where_places(const arg *a);

/* grad_fn.c: NULL with an exception set, None for a leaf */
int grad_fn_init(PyObject *module);
PyObject *py_grad_fn(const bk_tensor *t);
/* Which output of its grad_fn a tensor is. */
int py_output_number(const bk_tensor *t);
/* Whether the user has asked for gradients of what t was computed from: what forward mode records for itself is no such
 * thing. */
bool py_asks_gradient(const bk_tensor *t);
PyObject *py_gradient_edge(const arg *a);
/* bind_function.c: the ctx of a custom function's call (borrowed), NULL when it is no Python function's. */
PyObject *py_function_context(const node *call);
PyObject *py_refuse_freed(void);
/* function_context.c: a tensor of this value at a place on the tape; at that of a leaf which still has it, the leaf. */
PyObject *py_tensor_at(node *value, node *edge);
/* bind_autograd.c: the dict of the hooks of a kind (hook_kind) at a place, made at the first call. */
PyObject *py_hook_list(node *place, int kind);
/* The same for a list of packed values, which is kept. */
int py_keep_packed(node *place, PyObject *list);
/* bind_saved.c: whether some thread has a saver (saver.h); what this thread's makes of a tensor (None: nothing), and
 * the tensor again; all that was recorded for t goes to it. */
extern bool py_saved_hooks;
PyObject *py_pack(PyObject *tensor);
PyObject *py_unpack(PyObject *pair);
int py_pack_new(const bk_tensor *t);
int py_unpack_slots(void *list, bk_tensor *slots[static MAX_INPUTS + 1]);
/* bind_tape.c: a tensor of zeros that stands at a place on the tape; of a custom function, at result `number`. */
PyObject *py_stand_in(node *place, int number);
/* The attribute _saved_... of a step of a place (NULL without an error: it has none), and the names of all. */
PyObject *py_saved_attribute(const node *n, int step, const char *name);
int py_saved_names(const node *n, int step, PyObject *list);

/* bind_function.c: autograd.Function */
int function_init(PyObject *module);
int checkpoint_init(PyObject *module); /* bind_checkpoint.c */

/* repr.c */
PyObject *py_tensor_repr(PyObject *self);
/* tensor.c: a @ b, under the name that PyTorch has for its gradient */
PyObject *py_matmul_of(const bk_tensor *a, const bk_tensor *b);
PyObject *py_tensor_format(const arg *a);
PyObject *py_set_printoptions(const arg *a);
PyObject *py_get_printoptions(const arg *a);

/* Evaluates everything recorded. 0, or -1 with an exception set. */
int py_flush(void);

/* interpreter.c */
int interpreter_init(void);

#endif
