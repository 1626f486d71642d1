/* bind_checkpoint.c: what a checkpointed function saves for its gradients: forgotten, and found again by another run.
 *
 * The first run of the function is a saver that keeps no values: of each it writes down the sizes, and the place on the
 * tape (or the ctx of a custom function) gets a number instead. When a backward first asks for one of them, the
 * function runs once more, with a saver that collects values in the same order, on a tape that goes with that run; once
 * it has as many as the first run had, it stops the function by an exception. A backward has a run of its own, which
 * gives each value away once and is gone when the backward is over.
 *
 * Invariant: value i of a run is that of the i-th number that the first run gave. */
#include <stdlib.h>
#include <string.h>

#include "binds.h"
#include "gil.h"
#include "saver.h"

#include "autograd/backward.h"
#include "autograd/hooks.h"
#include "core/lock.h"
#include "core/memory.h"

typedef struct run run;

/* The first run. */
typedef struct frame {
    PyObject_HEAD PyObject *owner; /* of Python: runs the function again, and says what is wrong */
    uint64_t since;                /* what was recorded before is none of it */
    int32_t count;                 /* the values so far */
    bool early_stop, done, told;   /* told: the owner wants to hear of every record */
    int64_t *forms;                /* of each value: its dtype, how many sizes it has, these */
    size_t form_count, form_capacity;
    run *runs; /* of backwards under way */
} frame;

struct run {
    PyObject_HEAD frame *of; /* holds it, once it is in its list */
    uint64_t since;
    uint64_t task; /* the backward's number; 0: nobody else will ask for these values */
    int32_t met;   /* how many values the function has saved so far */
    int32_t room;
    node **values;      /* owned; NULL: given away */
    run *next;          /* of the same frame */
    run *later, **link; /* of all that are in a list */
};

/* What a place, or the ctx of a custom function, has of its values. */
typedef struct held {
    PyObject_HEAD frame *of;
    int32_t first;   /* the number of its first value */
    uint8_t slots;   /* of a place: bit k: input k, or the result, is one of them */
    uint8_t numbers; /* bit k: input k is a number, and stays */
    size_t form;     /* where the first value's is */
    node *number[MAX_INPUTS];
} held;

static PyTypeObject *frame_type, *run_type, *held_type;
static PyObject *stop; /* the exception that ends a run */
static run *all_runs;

bool is_checkpoint(PyObject *saver) { return Py_IS_TYPE(saver, frame_type) || Py_IS_TYPE(saver, run_type); }
bool is_held(PyObject *packed) { return Py_IS_TYPE(packed, held_type); }

const node *held_constant(PyObject *packed, int k)
{
    const held *h = (held *)packed;
    return h->numbers >> k & 1 ? h->number[k] : NULL;
}

/* --- what a place saves ----------------------------------------------------------------------------------------------
 */

static bool same_form(const int64_t *form, const node *value)
{
    const layout *l = value->layout;
    return form[0] == value->dtype && form[1] == l->ndim &&
           (!l->ndim || !memcmp(form + 2, l->sizes, (size_t)l->ndim * sizeof *form));
}

static const int64_t *next_form(const int64_t *form) { return form + 2 + form[1]; }

static PyObject *describe(int64_t dtype, int64_t ndim, const int64_t *sizes)
{
    PyObject *all = PyTuple_New((Py_ssize_t)ndim);
    for (int d = 0; all && d < ndim; d++)
        PyTuple_SET_ITEM(all, d, PyLong_FromLongLong(sizes[d]));
    return all ? Py_BuildValue("(NN)", all, py_dtype((bk_dtype)dtype)) : NULL;
}

/* The owner hears that n was recorded. */
static int tell(const frame *f, const node *n, bool again)
{
    if (!f->told)
        return 0;
    PyObject *form = describe(n->dtype, n->layout->ndim, n->layout->sizes);
    PyObject *done = form ? PyObject_CallMethod(f->owner, "note", "isO", again, op_get(n->op)->name, form) : NULL;
    Py_XDECREF(form);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* --- the first run ---------------------------------------------------------------------------------------------------
 */

/* The next value of the frame is of this form. */
static bool add_value(frame *f, bk_dtype dtype, const layout *l)
{
    size_t count = f->form_count + 2 + (size_t)l->ndim;
    if (count > f->form_capacity) {
        size_t capacity = 2 * count;
        int64_t *forms = mem_resize(f->forms, capacity * sizeof *forms);
        if (!forms)
            return false;
        f->forms = forms;
        f->form_capacity = capacity;
    }
    int64_t *form = f->forms + f->form_count;
    form[0] = dtype;
    form[1] = l->ndim;
    if (l->ndim)
        memcpy(form + 2, l->sizes, (size_t)l->ndim * sizeof *form);
    f->form_count = count;
    f->count++;
    return true;
}

static held *held_new(frame *f)
{
    held *h = PyObject_New(held, held_type);
    if (!h)
        return NULL;
    memset((char *)h + sizeof(PyObject), 0, sizeof *h - sizeof(PyObject));
    h->of = (frame *)Py_NewRef((PyObject *)f);
    h->first = f->count;
    h->form = f->form_count;
    return h;
}

/* n lets go of its values, at once or when it has been computed. */
static void drop_values(node *n, uint8_t slots)
{
    n->flags |= NODE_FREED;
    if (n->flags & NODE_PENDING)
        return;
    for (int k = 0; k < MAX_INPUTS; k++)
        if (slots >> k & 1)
            node_drop_input(n, k);
    if (n->refs == n->tape_refs && n->memory)
        node_forget_value(n);
}

static int hold_place(frame *f, node *n)
{
    uint8_t numbers, slots;
    lock_take();
    slots = values_saved(n, &numbers);
    lock_give();
    held *h = slots ? held_new(f) : NULL;
    if (!h)
        return slots ? -1 : 0;
    h->slots = slots;
    h->numbers = numbers;
    bool good = true;
    lock_take();
    for (int k = 0; good && k <= MAX_INPUTS; k++) {
        if (slots >> k & 1)
            good = add_value(f, (bk_dtype)value_saved(n, k)->dtype, value_saved(n, k)->layout);
        if (numbers >> k & 1)
            h->number[k] = node_retain(n->in[k]);
    }
    lock_give();
    if (!good)
        py_raise();
    int status = good ? py_keep_packed(n, (PyObject *)h) : -1;
    if (status == 0) {
        lock_take();
        drop_values(n, slots);
        lock_give();
    }
    Py_DECREF(h);
    return status;
}

/* --- later runs ------------------------------------------------------------------------------------------------------
 */

/* The function has saved one more value. With the lock. */
static void add_found(run *r, node *value)
{
    if (r->met < r->room)
        r->values[r->met] = node_retain(value);
    r->met++;
}

static void find_values(run *r, const node *n)
{
    uint8_t numbers, slots;
    lock_take();
    slots = values_saved(n, &numbers);
    for (int k = 0; k <= MAX_INPUTS; k++)
        if (slots >> k & 1)
            add_found(r, value_saved(n, k));
    lock_give();
}

/* -1: it is to go no further: it has all that is wanted, or more than there may be. A frame that is not done may ask
 * for what it has so far. */
static int check_progress(const run *r)
{
    const frame *f = r->of;
    if (f->early_stop && r->met >= r->room)
        PyErr_SetNone(stop);
    else if (f->done && r->met > r->room)
        Py_XDECREF(PyObject_CallMethod(f->owner, "refuse_more", NULL));
    return PyErr_Occurred() ? -1 : 0;
}

static void leave_list(run *r)
{
    run **at = &r->of->runs;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    *r->link = r->later;
    if (r->later)
        r->later->link = r->link;
    r->link = NULL;
    Py_DECREF(r);
}

/* A pass is over, and with it its runs. */
static void forget_runs(uint64_t task)
{
    gil_state gil = gil_take();
    for (run *r = all_runs; r;) {
        if (r->task == task) {
            leave_list(r); /* what goes with it may be another run */
            r = all_runs;
        } else {
            r = r->later;
        }
    }
    if (!all_runs)
        pass_over = NULL;
    gil_give(gil);
}

static void enter_list(run *r)
{
    r->next = r->of->runs;
    r->of->runs = (run *)Py_NewRef((PyObject *)r);
    r->later = all_runs;
    r->link = &all_runs;
    if (all_runs)
        all_runs->link = &r->later;
    all_runs = r;
    pass_over = forget_runs;
}

static run *run_new(frame *f, uint64_t task)
{
    run *r = PyObject_New(run, run_type);
    if (!r)
        return NULL;
    memset((char *)r + sizeof(PyObject), 0, sizeof *r - sizeof(PyObject));
    r->of = f;
    r->task = task;
    r->room = f->count;
    r->values = mem_alloc_zero((size_t)(r->room + 1) * sizeof *r->values);
    lock_take();
    r->since = next_sequence;
    lock_give();
    if (!r->values) {
        Py_DECREF(r);
        return (run *)py_raise();
    }
    return r;
}

/* [(position, form of the first run, form of this one)] of values that differ in it. */
static PyObject *changes(const run *r)
{
    PyObject *list = PyList_New(0);
    const int64_t *form = r->of->forms;
    for (int i = 0; list && i < r->room; i++, form = next_form(form)) {
        const node *value = r->values[i];
        if (same_form(form, value))
            continue;
        PyObject *one = Py_BuildValue("(iNN)", i, describe(form[0], form[1], form + 2),
                                      describe(value->dtype, value->layout->ndim, value->layout->sizes));
        if (!one || PyList_Append(list, one) < 0)
            Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

/* Whether a run has found what the first one saved. */
static int check_run(const run *r)
{
    const frame *f = r->of;
    PyObject *answer = NULL;
    if (r->met < r->room) {
        answer = PyObject_CallMethod(f->owner, "refuse_number", "ii", r->room, r->met);
    } else {
        PyObject *changed = changes(r);
        answer = !changed                   ? NULL
                 : PyList_GET_SIZE(changed) ? PyObject_CallMethod(f->owner, "refuse_forms", "O", changed)
                                            : Py_NewRef(Py_None);
        Py_XDECREF(changed);
    }
    Py_XDECREF(answer);
    return answer ? 0 : -1;
}

/* Runs the function again, for a backward or (task 0) for the caller alone. */
static run *run_again(frame *f, uint64_t task)
{
    run *r = run_new(f, task);
    if (!r)
        return NULL;
    PyObject *before = saver_swap(Py_NewRef((PyObject *)r));
    PyObject *done = PyObject_CallMethod(f->owner, "run", NULL);
    Py_XDECREF(saver_swap(before));
    bool good = done || PyErr_ExceptionMatches(stop);
    if (good)
        PyErr_Clear();
    Py_XDECREF(done);
    if (!good || check_run(r) < 0) {
        Py_DECREF(r);
        return NULL;
    }
    if (task)
        enter_list(r);
    return r;
}

/* The run of the backward under way. */
static run *run_for_task(frame *f)
{
    uint64_t task = backward_task();
    for (run *r = f->runs; r; r = r->next)
        if (r->task == task)
            return (run *)Py_NewRef((PyObject *)r);
    return run_again(f, task);
}

/* --- values again ----------------------------------------------------------------------------------------------------
 */

/* Value i, which goes: each is asked for once. NULL without an error: it was given away before. */
static bk_tensor *take(run *r, int i, const int64_t *form)
{
    node *value = r->values[i];
    if (!value)
        return NULL;
    lock_take();
    bk_tensor *t = tensor_own_at(value, NULL);
    r->values[i] = NULL;
    node_release(value);
    lock_give();
    bool same = t && form[1] == t->layout->ndim &&
                (!form[1] || !memcmp(form + 2, t->layout->sizes, (size_t)form[1] * sizeof *form));
    if (t && !same)
        PyErr_SetString(PyExc_RuntimeError, "torch.utils.checkpoint: a value that was computed again has other sizes");
    if (same && form[0] != (int64_t)tensor_dtype(t)) {
        bool was = grad_set_enabled(false);
        bk_tensor *cast = bk_to(t, (bk_dtype)form[0]);
        grad_set_enabled(was);
        bk_release(t);
        t = cast;
    } else if (!same) {
        bk_release(t);
        t = NULL;
    }
    if (!t && !PyErr_Occurred())
        py_raise();
    return t;
}

static bk_tensor *number_tensor(node *number)
{
    lock_take();
    bk_tensor *t = tensor_own_at(number, NULL);
    lock_give();
    if (!t)
        py_raise();
    return t;
}

/* From a run to itself, or to one of the caller's own where that has given the value away: a place may be gone through
 * more than once in a pass. */
static bk_tensor *take_or_run(run **r, int i, const int64_t *form)
{
    bk_tensor *t = take(*r, i, form);
    if (t || PyErr_Occurred())
        return t;
    run *again = run_again((*r)->of, 0);
    if (!again)
        return NULL;
    Py_SETREF(*r, again);
    return take(again, i, form);
}

int held_slots(PyObject *packed, bk_tensor *slots[static MAX_INPUTS + 1])
{
    held *h = (held *)Py_NewRef(packed);
    run *r = run_for_task(h->of);
    int i = h->first, status = r ? 0 : -1;
    size_t form = h->form;
    for (int k = 0; status == 0 && k <= MAX_INPUTS; k++) {
        if (h->numbers >> k & 1) {
            slots[k] = number_tensor(h->number[k]);
            status = slots[k] ? 0 : -1;
        } else if (h->slots >> k & 1) {
            slots[k] = take_or_run(&r, i++, h->of->forms + form);
            form = (size_t)(next_form(h->of->forms + form) - h->of->forms);
            status = slots[k] ? 0 : -1;
        }
    }
    Py_XDECREF(r);
    Py_DECREF(h);
    return status;
}

PyObject *held_tensor(PyObject *packed)
{
    held *h = (held *)Py_NewRef(packed);
    run *r = run_for_task(h->of);
    bk_tensor *t = r ? take(r, h->first, h->of->forms + h->form) : NULL;
    if (!t && !PyErr_Occurred())
        Py_XDECREF(PyObject_CallMethod(h->of->owner, "refuse_twice", NULL));
    Py_XDECREF(r);
    Py_DECREF(h);
    return t ? py_wrap(t) : NULL;
}

/* --- as savers -------------------------------------------------------------------------------------------------------
 */

static int look_at_place(PyObject *saver, node *n)
{
    if (Py_IS_TYPE(saver, frame_type))
        return tell((frame *)saver, n, false) < 0 ? -1 : hold_place((frame *)saver, n);
    run *r = (run *)saver;
    if (tell(r->of, n, true) < 0)
        return -1;
    find_values(r, n);
    return 0;
}

/* Views save nothing: what they are views of is looked at. */
int checkpoint_look(PyObject *saver, const bk_tensor *t)
{
    bool first = Py_IS_TYPE(saver, frame_type);
    uint64_t since = first ? ((frame *)saver)->since : ((run *)saver)->since;
    node *place = t->track->place;
    if (!place || place->flags & NODE_PACKED || place->sequence < since)
        return 0;
    new_places w = { 0 };
    Py_INCREF(saver);
    int status = new_places_find(&w, place, since) ? 0 : -1;
    if (status < 0)
        py_raise();
    for (int i = 0; status == 0 && i < w.count; i++)
        status = look_at_place(saver, w.v[i]);
    new_places_free(&w);
    if (status == 0 && !first)
        status = check_progress((run *)saver);
    Py_DECREF(saver);
    return status;
}

PyObject *checkpoint_pack(PyObject *saver, const bk_tensor *t)
{
    if (Py_IS_TYPE(saver, frame_type)) {
        frame *f = (frame *)saver;
        held *h = held_new(f);
        if (h && !add_value(f, tensor_dtype(t), t->layout)) {
            Py_CLEAR(h);
            py_raise();
        }
        return (PyObject *)h;
    }
    run *r = (run *)saver;
    operand in;
    lock_take();
    bool good = tensor_read(t, &in);
    if (good)
        add_found(r, in.value);
    lock_give();
    if (!good)
        return py_raise();
    return check_progress(r) < 0 ? NULL : Py_NewRef(Py_None);
}

/* --- types -----------------------------------------------------------------------------------------------------------
 */

static void object_free(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    PyObject_Free(o);
    Py_DECREF(type);
}

static void frame_dealloc(PyObject *o)
{
    frame *f = (frame *)o;
    while (f->runs)
        leave_list(f->runs);
    Py_XDECREF(f->owner);
    mem_free(f->forms);
    object_free(o);
}

static void run_dealloc(PyObject *o)
{
    run *r = (run *)o;
    lock_take();
    for (int i = 0; r->values && i < r->room; i++)
        if (r->values[i])
            node_release(r->values[i]);
    lock_give();
    mem_free(r->values);
    object_free(o);
}

static void held_dealloc(PyObject *o)
{
    held *h = (held *)o;
    lock_take();
    for (int k = 0; k < MAX_INPUTS; k++)
        if (h->number[k])
            node_release(h->number[k]);
    lock_give();
    Py_DECREF(h->of);
    object_free(o);
}

enum { FLAGS = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION };
static PyType_Slot frame_slots[] = { { Py_tp_dealloc, frame_dealloc }, { 0, NULL } };
static PyType_Slot run_slots[] = { { Py_tp_dealloc, run_dealloc }, { 0, NULL } };
static PyType_Slot held_slots_of_type[] = { { Py_tp_dealloc, held_dealloc }, { 0, NULL } };
static PyType_Spec frame_spec = { "brisk._C._CheckpointFrame", sizeof(frame), 0, FLAGS, frame_slots };
static PyType_Spec run_spec = { "brisk._C._CheckpointRun", sizeof(run), 0, FLAGS, run_slots };
static PyType_Spec held_spec = { "brisk._C._CheckpointHeld", sizeof(held), 0, FLAGS, held_slots_of_type };

int checkpoint_init(PyObject *module)
{
    if (!stop)
        stop = PyErr_NewException("brisk.utils.checkpoint._StopRecomputationError", NULL, NULL);
    if (!stop || PyModule_AddObjectRef(module, "_StopRecomputationError", stop) < 0)
        return -1;
    return py_add_type(module, &frame_spec, &frame_type) < 0 || py_add_type(module, &run_spec, &run_type) < 0 ||
                   py_add_type(module, &held_spec, &held_type) < 0
               ? -1
               : 0;
}

/* (owner, early_stop, told): a saver for a first run that begins now. */
static PyObject *py_checkpoint_frame(const arg *a)
{
    frame *f = PyObject_New(frame, frame_type);
    if (!f)
        return NULL;
    memset((char *)f + sizeof(PyObject), 0, sizeof *f - sizeof(PyObject));
    f->owner = Py_NewRef(a[0].object);
    f->early_stop = a[1].b;
    f->told = a[2].b;
    lock_take();
    f->since = next_sequence;
    lock_give();
    return (PyObject *)f;
}

/* The first run is over. */
static PyObject *py_checkpoint_done(const arg *a)
{
    if (!Py_IS_TYPE(a[0].object, frame_type))
        return PyErr_Format(PyExc_TypeError, "expected a frame, not %s", py_type_name(a[0].object));
    ((frame *)a[0].object)->done = true;
    Py_RETURN_NONE;
}

const binding checkpoint_rows[] = {
    { AS_FUNCTION, "_checkpoint_frame(Object owner, bool early_stop, bool told)", py_checkpoint_frame, NULL },
    { AS_FUNCTION, "_checkpoint_done(Object frame)", py_checkpoint_done, NULL },
};
const size_t checkpoint_row_count = sizeof checkpoint_rows / sizeof *checkpoint_rows;
