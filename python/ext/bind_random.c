/* bind_random.c: random tensors, and brisk.Generator.
 *
 * Invariant: the default generator is one object for the life of the process, and its `g` is NULL, which is how the
 * library names it. */
#include "factories.h"

#include <string.h>

#include "autograd/composed.h"
#include "autograd/slopeless.h"
#include "core/lock.h"

/* --- Generator --------------------------------------------------------------------------------------------------- */

typedef struct generator_object {
    PyObject_HEAD bk_generator *g;
} generator_object;

static PyObject *default_generator;

static bk_generator *generator_of(PyObject *o) { return ((generator_object *)o)->g; }
/* The generator an argument names; none means the default one. */
static bk_generator *chosen(const arg *a) { return a->given ? generator_of(a->object) : NULL; }
bk_generator *py_generator_of(const arg *a) { return chosen(a); }

static PyObject *generator_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = { "device", NULL };
    PyObject *device = NULL;
    py_device d = { 0, -1 };
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Generator", keywords, &device))
        return NULL;
    if (device && device != Py_None) {
        int r = device_from_python(device, &d);
        if (r == -2)
            PyErr_Format(PyExc_TypeError, "Generator(): argument 'device' (position 1) must be torch.device, not %s",
                         py_type_name(device));
        if (r < 0 || device_check(d))
            return NULL;
    }
    generator_object *o = (generator_object *)type->tp_alloc(type, 0);
    if (o && !(o->g = bk_generator_new())) {
        Py_DECREF(o);
        return py_raise();
    }
    return (PyObject *)o;
}

static void generator_dealloc(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    bk_generator_free(generator_of(o));
    type->tp_free(o);
    Py_DECREF(type);
}

/* Any int of 64 bits, signed or not: a negative one as its two's complement. */
static int seed_from(PyObject *o, uint64_t *out)
{
    PyObject *seed = PyNumber_Long(o);
    if (!seed)
        return -1;
    int overflow;
    long long i = PyLong_AsLongLongAndOverflow(seed, &overflow);
    *out = overflow > 0 ? PyLong_AsUnsignedLongLong(seed) : (uint64_t)i;
    Py_DECREF(seed);
    if (overflow < 0 || PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
        return -1;
    }
    return 0;
}

static PyObject *generator_manual_seed(PyObject *o, PyObject *value)
{
    uint64_t seed;
    if (seed_from(value, &seed))
        return NULL;
    bk_generator_manual_seed(generator_of(o), seed);
    return Py_NewRef(o);
}

static PyObject *generator_seed(PyObject *o, PyObject *none)
{
    (void)none;
    return PyLong_FromUnsignedLongLong(bk_generator_seed(generator_of(o)));
}

static PyObject *generator_initial_seed(PyObject *o, PyObject *none)
{
    (void)none;
    return PyLong_FromUnsignedLongLong(bk_generator_initial_seed(generator_of(o)));
}

static PyObject *generator_get_state(PyObject *o, PyObject *none)
{
    (void)none;
    char bytes[BK_GENERATOR_STATE_BYTES];
    bk_generator_get_state(generator_of(o), bytes);
    return py_wrap(bk_from_data(bytes, 1, (int64_t[]){ BK_GENERATOR_STATE_BYTES }, BK_UINT8));
}

static PyObject *generator_set_state(PyObject *o, PyObject *state)
{
    view v;
    if (!py_is_tensor(state))
        return PyErr_Format(PyExc_TypeError, "expected a torch.ByteTensor, but got %s", py_type_name(state));
    if (py_tensor_read(state, &v))
        return NULL;
    if (v.dtype != BK_UINT8 || v.ndim != 1 || v.strides[0] != 1)
        return PyErr_Format(PyExc_TypeError, "RNG state must be a torch.ByteTensor");
    if (bk_generator_set_state(generator_of(o), v.data, v.sizes[0]) < 0)
        return py_raise();
    return Py_NewRef(o);
}

static PyObject *generator_clone_state(PyObject *o, PyObject *none)
{
    (void)none;
    char bytes[BK_GENERATOR_STATE_BYTES];
    PyObject *copy = PyObject_CallNoArgs((PyObject *)py_generator_type);
    if (!copy)
        return NULL;
    bk_generator_get_state(generator_of(o), bytes);
    bk_generator_set_state(generator_of(copy), bytes, sizeof bytes);
    return copy;
}

static PyObject *generator_device(PyObject *o, void *closure)
{
    (void)o, (void)closure;
    return py_device_new((py_device){ .type = 0, .index = -1 });
}

static PyMethodDef generator_methods[] = {
    { "manual_seed", generator_manual_seed, METH_O, "Starts the numbers that belong to a seed; returns itself." },
    { "seed", generator_seed, METH_NOARGS, "Seeds by chance, and returns the seed." },
    { "initial_seed", generator_initial_seed, METH_NOARGS, "The seed it was started with." },
    { "get_state", generator_get_state, METH_NOARGS, "The state, as a tensor of bytes." },
    { "set_state", generator_set_state, METH_O, "Continues from a state." },
    { "clone_state", generator_clone_state, METH_NOARGS, "Another generator in the same state." },
    { 0 },
};

static PyGetSetDef generator_attributes[] = { { "device", generator_device, NULL, NULL, NULL }, { 0 } };

static PyType_Slot generator_slots[] = {
    { Py_tp_new, generator_new },
    { Py_tp_dealloc, generator_dealloc },
    { Py_tp_methods, generator_methods },
    { Py_tp_getset, generator_attributes },
    { Py_tp_doc, "A source of random numbers with a state of its own." },
    { 0, NULL },
};
static PyType_Spec generator_spec = { "brisk.Generator", sizeof(generator_object), 0,
                                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, generator_slots };

int random_init(PyObject *module)
{
    if (py_add_type(module, &generator_spec, &py_generator_type))
        return -1;
    if (!default_generator)
        default_generator = py_generator_type->tp_alloc(py_generator_type, 0);
    return default_generator ? PyModule_AddObjectRef(module, "default_generator", default_generator) : -1;
}

static PyObject *py_manual_seed(const arg *a) { return generator_manual_seed(default_generator, a[0].object); }
static PyObject *py_seed(const arg *a) { return (void)a, generator_seed(default_generator, NULL); }
static PyObject *py_initial_seed(const arg *a) { return (void)a, generator_initial_seed(default_generator, NULL); }
static PyObject *py_get_rng_state(const arg *a) { return (void)a, generator_get_state(default_generator, NULL); }

static PyObject *py_set_rng_state(const arg *a)
{
    PyObject *same = generator_set_state(default_generator, a[0].object);
    if (!same)
        return NULL;
    Py_DECREF(same);
    Py_RETURN_NONE;
}

/* --- tensors of a size ---------------------------------------------------------------------------------------------
 */

/* (size, generator, out, options) */
static PyObject *of_size(const arg *a, bk_tensor *(*draw)(int, const int64_t *, bk_dtype, bk_generator *))
{
    if (options_check(a + 3))
        return NULL;
    bk_tensor *t = draw(a[0].ints.n, a[0].ints.v, made_dtype(a + 3, bk_get_default_dtype()), chosen(&a[1]));
    return options_apply(t, a + 3, &a[2]);
}

static PyObject *py_rand(const arg *a) { return of_size(a, bk_rand); }
static PyObject *py_randn(const arg *a) { return of_size(a, bk_randn); }

/* size, generator, out, options; a bare int is no size here. */
static PyObject *randint(int64_t low, int64_t high, const arg *a, int position)
{
    if (a[0].object && !PyTuple_Check(a[0].object) && !PyList_Check(a[0].object))
        return PyErr_Format(PyExc_TypeError, "randint(): argument 'size' (position %d) must be tuple of ints, not %s",
                            position, py_type_name(a[0].object));
    if (options_check(a + 3))
        return NULL;
    bk_tensor *t = bk_randint(low, high, a[0].ints.n, a[0].ints.v, made_dtype(a + 3, BK_INT64), chosen(&a[1]));
    return options_apply(t, a + 3, &a[2]);
}

static PyObject *py_randint_high(const arg *a) { return randint(0, a[0].i, a + 1, 2); }
static PyObject *py_randint(const arg *a) { return randint(a[0].i, a[1].i, a + 2, 3); }

static PyObject *py_randperm(const arg *a)
{
    if (options_check(a + 3))
        return NULL;
    return options_apply(bk_randperm(a[0].i, made_dtype(a + 3, BK_INT64), chosen(&a[1])), a + 3, &a[2]);
}

/* --- like another tensor --------------------------------------------------------------------------------------------
 */

/* An empty tensor like t, to be filled; NULL with an exception set. */
static bk_tensor *empty_like(const arg *t, const arg *options)
{
    const layout *l =
        options_check(options) ? NULL : format_layout(t->tensor->layout, &options[OPTION_FORMAT], FORMAT_PRESERVE);
    if (!l)
        return NULL;
    bk_tensor *e = bk_empty_strided(l->ndim, l->sizes, l->strides, option_dtype(options, tensor_dtype(t->tensor)));
    if (!e)
        py_raise();
    return e;
}

static PyObject *filled_like(bk_tensor *e, int status, const arg *options)
{
    if (status < 0) {
        bk_release(e);
        return py_raise();
    }
    return options_apply(e, options, NULL);
}

static PyObject *py_rand_like(const arg *a)
{
    bk_tensor *e = empty_like(&a[0], a + 2);
    return e ? filled_like(e, bk_uniform_(e, 0, 1, chosen(&a[1])), a + 2) : NULL;
}

static PyObject *py_randn_like(const arg *a)
{
    bk_tensor *e = empty_like(&a[0], a + 2);
    return e ? filled_like(e, bk_normal_(e, 0, 1, chosen(&a[1])), a + 2) : NULL;
}

static PyObject *randint_like(const arg *t, int64_t low, int64_t high, const arg *generator)
{
    bk_tensor *e = empty_like(t, generator + 1);
    return e ? filled_like(e, bk_random_range_(e, low, high, chosen(generator)), generator + 1) : NULL;
}

static PyObject *py_randint_like_high(const arg *a) { return randint_like(&a[0], 0, a[1].i, &a[2]); }
static PyObject *py_randint_like(const arg *a) { return randint_like(&a[0], a[1].i, a[2].i, &a[3]); }

/* --- by the elements of tensors --------------------------------------------------------------------------------------
 */

/* What was drawn, on the tape of the tensors (or NULL) that it was drawn for: they get gradients of zero. Steals it. */
static bk_tensor *drawn_for(bk_tensor *drawn, const bk_tensor *first, const bk_tensor *second)
{
    const bk_tensor *of[] = { second, first };
    bk_tensor *never = NULL;
    for (int i = 0; drawn && grad_enabled() && i < 2; i++) {
        if (!of[i] || !tensor_tracked(of[i]))
            continue;
        never = never ? never : bk_scalar(0, BK_BOOL);
        bk_tensor *alike = bk_to(of[i], tensor_dtype(drawn)); /* of a mean and a deviation, one may be wider */
        bk_tensor *t = never && alike ? bk_where(never, alike, drawn) : NULL;
        bk_release(alike);
        bk_release(drawn);
        drawn = t;
    }
    bk_release(never);
    return drawn;
}

static PyObject *py_normal_tensors(const arg *a)
{
    bk_tensor *t = bk_normal(a[0].tensor, a[1].tensor, chosen(&a[2]));
    return py_out(a[3].given ? t : drawn_for(t, a[0].tensor, a[1].tensor), &a[3]);
}

/* Numbers of one deviation around each mean. */
static PyObject *py_normal_mean(const arg *a)
{
    const layout *l = a[0].tensor->layout;
    bk_tensor *t = bk_empty(l->ndim, l->sizes, tensor_dtype(a[0].tensor)), *sum = NULL;
    if (t && bk_normal_(t, 0, a[1].d, chosen(&a[2])) == 0) {
        bool grad = bk_set_grad_enabled(false);
        sum = bk_add(t, a[0].tensor);
        bk_set_grad_enabled(grad);
    }
    bk_release(t);
    return py_out(a[3].given ? sum : drawn_for(sum, a[0].tensor, NULL), &a[3]);
}

static PyObject *py_normal_std(const arg *a)
{
    bk_tensor *mean = bk_scalar(a[0].d, tensor_dtype(a[1].tensor));
    bk_tensor *t = mean ? bk_normal(mean, a[1].tensor, chosen(&a[2])) : NULL;
    bk_release(mean);
    return py_out(a[3].given ? t : drawn_for(t, a[1].tensor, NULL), &a[3]);
}

static PyObject *py_normal_size(const arg *a)
{
    if (options_check(a + 5))
        return NULL;
    bk_tensor *t = bk_empty(a[2].ints.n, a[2].ints.v, made_dtype(a + 5, bk_get_default_dtype()));
    if (t && bk_normal_(t, a[0].d, a[1].d, chosen(&a[3])) < 0) {
        bk_release(t);
        t = NULL;
    }
    return options_apply(tensor_finished(t), a + 5, &a[4]);
}

static PyObject *py_bernoulli(const arg *a)
{
    bk_tensor *t = bk_bernoulli(a[0].tensor, chosen(&a[1]));
    return py_out(a[2].given ? t : drawn_for(t, a[0].tensor, NULL), &a[2]);
}

static PyObject *py_bernoulli_p(const arg *a)
{
    bk_tensor *t = bk_empty_like(a[0].tensor, tensor_dtype(a[0].tensor));
    if (t && bk_bernoulli_(t, a[1].d, chosen(&a[2])) < 0) {
        bk_release(t);
        t = NULL;
    }
    return py_wrap(slopeless_as(t, "bernoulli", (const bk_tensor *[]){ a[0].tensor }, 1));
}

/* (self, p, train): the tensor itself where nothing is dropped */
#define DROPOUT(name, kind)                                                                                            \
    static PyObject *py_##name(const arg *a) { return dropped(a, kind); }                                              \
    static PyObject *py_##name##_(const arg *a)                                                                        \
    {                                                                                                                  \
        return py_in_place(&a[0], bk_dropout_(a[0].tensor, a[1].d, a[2].b, kind));                                     \
    }
static PyObject *dropped(const arg *a, int kind)
{
    bk_tensor *t = bk_dropout(a[0].tensor, a[1].d, a[2].b, (bk_dropout_kind)kind);
    if (t != a[0].tensor)
        return py_wrap(t);
    bk_release(t);
    return Py_NewRef(a[0].object);
}
DROPOUT(dropout, BK_DROPOUT)
DROPOUT(feature_dropout, BK_DROPOUT_FEATURES)
DROPOUT(alpha_dropout, BK_DROPOUT_ALPHA)
DROPOUT(feature_alpha_dropout, BK_DROPOUT_FEATURES | BK_DROPOUT_ALPHA)

static PyObject *py_standard_gamma(const arg *a) { return py_wrap(bk_standard_gamma(a[0].tensor, chosen(&a[1]))); }
static PyObject *py_standard_gamma_grad(const arg *a)
{
    return py_wrap(bk_standard_gamma_grad(a[0].tensor, a[1].tensor));
}
static PyObject *py_binomial(const arg *a) { return py_wrap(bk_binomial(a[0].tensor, a[1].tensor, chosen(&a[2]))); }
static PyObject *py_poisson(const arg *a)
{
    return py_wrap(drawn_for(bk_poisson(a[0].tensor, chosen(&a[1])), a[0].tensor, NULL));
}

static PyObject *py_multinomial(const arg *a)
{
    return py_out(bk_multinomial(a[0].tensor, a[1].i, a[2].b, chosen(&a[3])), &a[4]);
}

/* --- in place: (self, parameters, generator)
 * --------------------------------------------------------------------------- */

static PyObject *py_uniform_(const arg *a)
{
    return py_in_place(&a[0], bk_uniform_(a[0].tensor, a[1].d, a[2].d, chosen(&a[3])));
}
static PyObject *py_normal_(const arg *a)
{
    return py_in_place(&a[0], bk_normal_(a[0].tensor, a[1].d, a[2].d, chosen(&a[3])));
}
static PyObject *py_log_normal_(const arg *a)
{
    return py_in_place(&a[0], bk_log_normal_(a[0].tensor, a[1].d, a[2].d, chosen(&a[3])));
}
static PyObject *py_cauchy_(const arg *a)
{
    return py_in_place(&a[0], bk_cauchy_(a[0].tensor, a[1].d, a[2].d, chosen(&a[3])));
}
static PyObject *py_exponential_(const arg *a)
{
    return py_in_place(&a[0], bk_exponential_(a[0].tensor, a[1].d, chosen(&a[2])));
}
static PyObject *py_geometric_(const arg *a)
{
    return py_in_place(&a[0], bk_geometric_(a[0].tensor, a[1].d, chosen(&a[2])));
}
static PyObject *py_bernoulli_(const arg *a)
{
    return py_in_place(&a[0], bk_bernoulli_(a[0].tensor, a[1].d, chosen(&a[2])));
}
static PyObject *py_bernoulli_tensor_(const arg *a)
{
    return py_in_place(&a[0], bk_bernoulli_tensor_(a[0].tensor, a[1].tensor, chosen(&a[2])));
}
static PyObject *py_random_(const arg *a) { return py_in_place(&a[0], bk_random_(a[0].tensor, chosen(&a[1]))); }
/* Integers from a range, by the name that PyTorch has for its form: one end was given, or both. */
static PyObject *random_range(const arg *self, int64_t from, int64_t to, bk_generator *g, bool both)
{
    static const char *const names[] = { "_random_to_", "_random_range_" };
    static int rows[2];
    const uint64_t start = next_sequence;
    const bk_tensor *of = self->tensor;
    int status = bk_random_range_(self->tensor, from, to, g);
    if (status == 0)
        composed_as(self->tensor, names[both], &rows[both], start, &of, 1);
    return py_in_place(self, status);
}
static PyObject *py_random_to_(const arg *a) { return random_range(&a[0], 0, a[1].i, chosen(&a[2]), false); }
/* Without an end the range goes up to the largest int64. */
static PyObject *py_random_range_(const arg *a)
{
    return random_range(&a[0], a[1].i, a[2].given ? a[2].i : INT64_MIN, chosen(&a[3]), true);
}

enum { BOTH = AS_FUNCTION | AS_METHOD };
#define DRAWN "*, Generator? generator=None"

const binding random_rows[] = {
    { AS_FUNCTION, "manual_seed(Object seed)", py_manual_seed, "Seeds the default generator, and returns it." },
    { AS_FUNCTION, "seed()", py_seed, NULL },
    { AS_FUNCTION, "initial_seed()", py_initial_seed, NULL },
    { AS_FUNCTION, "get_rng_state()", py_get_rng_state, NULL },
    { AS_FUNCTION, "set_rng_state(Object new_state)", py_set_rng_state, NULL },
    { AS_FUNCTION, "rand(int[] size, " DRAWN ", Tensor? out=None, " OPTIONS ")", py_rand,
      "Numbers uniform in [0, 1)." },
    { AS_FUNCTION, "randn(int[] size, " DRAWN ", Tensor? out=None, " OPTIONS ")", py_randn,
      "Normally distributed numbers." },
    { AS_FUNCTION, "randint(int high, int[] size, " DRAWN ", Tensor? out=None, " OPTIONS ")", py_randint_high,
      "Integers from low (0) to high, high excluded." },
    { AS_FUNCTION, "randint(int low, int high, int[] size, " DRAWN ", Tensor? out=None, " OPTIONS ")", py_randint,
      NULL },
    { AS_FUNCTION, "randperm(int n, " DRAWN ", Tensor? out=None, " OPTIONS ")", py_randperm,
      "The numbers below n in random order." },
    { AS_FUNCTION, "rand_like(Tensor self, " DRAWN ", " LIKE_OPTIONS ")", py_rand_like, NULL },
    { AS_FUNCTION, "randn_like(Tensor self, " DRAWN ", " LIKE_OPTIONS ")", py_randn_like, NULL },
    { AS_FUNCTION, "randint_like(Tensor self, int high, " DRAWN ", " LIKE_OPTIONS ")", py_randint_like_high, NULL },
    { AS_FUNCTION, "randint_like(Tensor self, int low, int high, " DRAWN ", " LIKE_OPTIONS ")", py_randint_like, NULL },
    { AS_FUNCTION, "normal(Tensor mean, Tensor std, " DRAWN ", Tensor? out=None)", py_normal_tensors,
      "Normally distributed numbers, mean and deviation by element." },
    { AS_FUNCTION, "normal(Tensor mean, float std=1, " DRAWN ", Tensor? out=None)", py_normal_mean, NULL },
    { AS_FUNCTION, "normal(float mean, Tensor std, " DRAWN ", Tensor? out=None)", py_normal_std, NULL },
    { AS_FUNCTION, "normal(float mean, float std, int[] size, " DRAWN ", Tensor? out=None, " OPTIONS ")",
      py_normal_size, NULL },
    { BOTH, "bernoulli(Tensor self, " DRAWN ", Tensor? out=None)", py_bernoulli, "1 with probability self, else 0." },
    { BOTH, "bernoulli(Tensor self, float p, " DRAWN ")", py_bernoulli_p, NULL },
#define DROPOUT_ROWS(name, doc)                                                                                        \
    { AS_FUNCTION, #name "(Tensor self, float p, bool train)", py_##name, doc },                                       \
        { AS_FUNCTION, #name "_(Tensor self, float p, bool train)", py_##name##_, NULL },
    DROPOUT_ROWS(dropout, "Zeroes each element with probability p and divides the others by 1 - p.")
        DROPOUT_ROWS(feature_dropout, "Dropout of whole channels.")
            DROPOUT_ROWS(alpha_dropout, "Dropout that keeps the mean and variance of what a SELU gives.")
                DROPOUT_ROWS(feature_alpha_dropout,
                             NULL){ AS_FUNCTION, "poisson(Tensor self, Generator? generator=None)", py_poisson, NULL },
    { AS_FUNCTION, "binomial(Tensor count, Tensor prob, Generator? generator=None)", py_binomial, NULL },
    { AS_FUNCTION, "_standard_gamma(Tensor self, Generator? generator=None)", py_standard_gamma, NULL },
    { AS_FUNCTION, "_standard_gamma_grad(Tensor self, Tensor output)", py_standard_gamma_grad, NULL },
    { BOTH, "multinomial(Tensor self, int num_samples, bool replacement=False, " DRAWN ", Tensor? out=None)",
      py_multinomial, "Column indices, drawn by the weights of each row." },
    { AS_METHOD, "uniform_(Tensor self, float from=0, float to=1, " DRAWN ")", py_uniform_, NULL },
    { AS_METHOD, "normal_(Tensor self, float mean=0, float std=1, " DRAWN ")", py_normal_, NULL },
    { AS_METHOD, "log_normal_(Tensor self, float mean=1, float std=2, " DRAWN ")", py_log_normal_, NULL },
    { AS_METHOD, "cauchy_(Tensor self, float median=0, float sigma=1, " DRAWN ")", py_cauchy_, NULL },
    { AS_METHOD, "exponential_(Tensor self, float lambd=1, " DRAWN ")", py_exponential_, NULL },
    { AS_METHOD, "geometric_(Tensor self, float p, " DRAWN ")", py_geometric_, NULL },
    { AS_METHOD, "bernoulli_(Tensor self, Tensor p, " DRAWN ")", py_bernoulli_tensor_, NULL },
    { AS_METHOD, "bernoulli_(Tensor self, float p=0.5, " DRAWN ")", py_bernoulli_, NULL },
    { AS_METHOD, "random_(Tensor self, " DRAWN ")", py_random_, NULL },
    { AS_METHOD, "random_(Tensor self, int to, " DRAWN ")", py_random_to_, NULL },
    { AS_METHOD, "random_(Tensor self, int from, int? to, " DRAWN ")", py_random_range_, NULL },
};
const size_t random_row_count = sizeof random_rows / sizeof *random_rows;
