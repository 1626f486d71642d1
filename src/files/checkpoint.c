/* checkpoint.c: PyTorch's checkpoints for C programs: a zip archive of a pickle and one entry for each storage.
 *
 *     archive/data.pkl     the containers; a tensor is _rebuild_tensor_v2(storage, offset, sizes, strides, ...)
 *     archive/data/0 ...   the storages' bytes, which the pickle names by ("storage", dtype, key, location, count)
 *     archive/byteorder    "little"
 *     archive/version      "3\n"
 *
 * Loading is strict about names (only those of the table below are known, nothing is ever called) and lenient about
 * content: what is no tensor becomes a record that nobody looks into. Records live until the end of the load. */
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/scope.h"
#include "files/pickle.h"
#include "files/tensors.h"
#include "files/zip.h"

/* --- the names that a checkpoint may use ------------------------------------------------------------------------- */

typedef enum name_use {
    USE_STORAGE,   /* the dtype of a storage */
    USE_TENSOR,    /* (storage, offset, sizes, strides, ...) */
    USE_PARAMETER, /* (tensor, requires_grad, ...) */
    USE_DICT,      /* (), filled afterwards */
    USE_OTHER      /* something harmless that holds no tensors */
} name_use;

typedef struct known_name {
    const char *module, *name;
    name_use use;
    bk_dtype dtype;
} known_name;

/* clang-format off */
#define STORAGES(X) \
    X("FloatStorage", BK_FLOAT32) X("DoubleStorage", BK_FLOAT64) X("HalfStorage", BK_FLOAT16) \
    X("BFloat16Storage", BK_BFLOAT16) X("LongStorage", BK_INT64) X("IntStorage", BK_INT32) \
    X("ShortStorage", BK_INT16) X("CharStorage", BK_INT8) X("ByteStorage", BK_UINT8) X("BoolStorage", BK_BOOL)
static const known_name known_names[] = {
#define ROW(text, type) { "torch", text, USE_STORAGE, type }, { "torch.cuda", text, USE_STORAGE, type },
    STORAGES(ROW)
#undef ROW
    { "torch._utils", "_rebuild_tensor", USE_TENSOR, 0 },
    { "torch._utils", "_rebuild_tensor_v2", USE_TENSOR, 0 },
    { "torch._utils", "_rebuild_parameter", USE_PARAMETER, 0 },
    { "torch._utils", "_rebuild_parameter_with_state", USE_PARAMETER, 0 },
    { "torch.nn.parameter", "Parameter", USE_PARAMETER, 0 },
    { "collections", "OrderedDict", USE_DICT, 0 },
    { "collections", "defaultdict", USE_DICT, 0 },
    { "collections", "Counter", USE_OTHER, 0 },
    { "torch", "Size", USE_OTHER, 0 },
    { "torch", "device", USE_OTHER, 0 },
    { "torch.serialization", "_get_layout", USE_OTHER, 0 },
    { "_codecs", "encode", USE_OTHER, 0 },
};
/* clang-format on */

static const char *storage_name(bk_dtype dtype)
{
    for (size_t i = 0; i < sizeof known_names / sizeof *known_names; i++)
        if (known_names[i].use == USE_STORAGE && known_names[i].dtype == dtype)
            return known_names[i].name;
    return NULL;
}

/* Python's own types (a set, bytes, a complex number) and torch's dtypes: no tensors in them. */
static bool harmless(const char *module, const char *name)
{
    static const char *const types[] = { "set",   "frozenset", "bytearray", "complex", "float", "int",  "bool",
                                         "bytes", "str",       "list",      "dict",    "tuple", "slice" };
    if (!strcmp(module, "torch"))
        for (int d = 0; d < BK_DTYPE_COUNT; d++)
            if (!strcmp(name, bk_dtype_name((bk_dtype)d)))
                return true;
    if (strcmp(module, "builtins") != 0 && strcmp(module, "__builtin__") != 0)
        return false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(name, types[i]))
            return true;
    return false;
}

static const known_name *find_name(const char *module, const char *name)
{
    static const known_name other = { "", "", USE_OTHER, 0 };
    for (size_t i = 0; i < sizeof known_names / sizeof *known_names; i++)
        if (!strcmp(known_names[i].module, module) && !strcmp(known_names[i].name, name))
            return &known_names[i];
    return harmless(module, name) ? &other : NULL;
}

/* --- records -------------------------------------------------------------------------------------------------------
 */

typedef enum record_kind {
    RECORD_OTHER,
    RECORD_INT,
    RECORD_TEXT,
    RECORD_GROUP,
    RECORD_DICT,
    RECORD_NAME,
    RECORD_STORAGE,
    RECORD_TENSOR
} record_kind;

typedef struct record {
    struct record *next; /* of all records */
    record_kind kind;
    bool visited;
    int64_t i;             /* INT */
    char *text;            /* TEXT */
    struct record **items; /* GROUP (tuple, list): its items; DICT: key, value, key, value */
    size_t count, room;
    const known_name *name; /* NAME */
    bk_tensor *tensor;      /* TENSOR; STORAGE: all of it, of one dimension (borrowed from the loader) */
} record;

typedef struct loader {
    zip_reader zip;
    size_t prefix; /* bytes of "archive/" in the entries' names */
    record *records;
    bk_tensor **storages; /* by number of the entry */
} loader;

static record *record_new(loader *l, record_kind kind)
{
    record *r = mem_alloc_zero(sizeof *r);
    if (!r)
        return NULL;
    r->kind = kind;
    r->next = l->records;
    return l->records = r;
}

static void *wrong(const char *what) { return error_null(BK_VALUE_ERROR, "the checkpoint is broken: %s", what); }

static void *make_atom(void *context, const pickle_atom *a)
{
    loader *l = context;
    bool whole = a->kind == PICKLE_INT || a->kind == PICKLE_BOOL;
    record *r = record_new(l, whole ? RECORD_INT : a->kind == PICKLE_TEXT ? RECORD_TEXT : RECORD_OTHER);
    if (!r || r->kind == RECORD_OTHER)
        return r;
    r->i = a->i;
    if (r->kind == RECORD_TEXT) {
        if (a->length && memchr(a->text, 0, a->length)) { /* a key with a 0 in it cannot be a name in C */
            r->kind = RECORD_OTHER;
            return r;
        }
        if (!(r->text = mem_alloc(a->length + 1)))
            return NULL;
        memcpy(r->text, a->text, a->length);
        r->text[a->length] = 0;
    }
    return r;
}

static int add_items(record *r, void *const *items, size_t n)
{
    record **grown = array_grow(r->items, &r->room, r->count + n, sizeof *grown);
    if (!grown)
        return -1;
    r->items = grown;
    if (n)
        memcpy(r->items + r->count, items, n * sizeof *items);
    r->count += n;
    return 0;
}

static void *make_group(void *context, pickle_kind kind, void *const *items, size_t n)
{
    bool looked_into = kind == PICKLE_TUPLE || kind == PICKLE_LIST;
    record *r = record_new(context, kind == PICKLE_DICT ? RECORD_DICT : looked_into ? RECORD_GROUP : RECORD_OTHER);
    if (!r || r->kind == RECORD_OTHER)
        return r;
    return n == 0 || add_items(r, items, n) == 0 ? r : NULL;
}

static int fill(void *context, pickle_kind kind, void *target, void *const *items, size_t n)
{
    (void)context;
    record *r = target;
    if (r->kind == RECORD_OTHER || n == 0)
        return 0;
    if (r->kind != (kind == PICKLE_DICT ? RECORD_DICT : RECORD_GROUP))
        return wrong("items are added to what is no container"), -1;
    return add_items(r, items, n);
}

static void *make_name(void *context, const char *module, const char *name)
{
    const known_name *known = find_name(module, name);
    if (!known)
        return error_null(BK_VALUE_ERROR,
                          "the checkpoint names %s.%s, which is not one of the names that loading knows; "
                          "nothing in a file is ever run",
                          module, name);
    record *r = record_new(context, RECORD_NAME);
    if (r)
        r->name = known;
    return r;
}

static void *make_named(void *context, void *module, void *name)
{
    const record *m = module, *n = name;
    if (m->kind != RECORD_TEXT || n->kind != RECORD_TEXT)
        return wrong("a name is no text");
    return make_name(context, m->text, n->text);
}

static int build(void *context, void *object, void *state) { return (void)context, (void)object, (void)state, 0; }
static void *retain(void *context, void *value) { return (void)context, value; }
static void release(void *context, void *value) { (void)context, (void)value; }

/* --- tensors -------------------------------------------------------------------------------------------------------
 */

typedef struct entry_reading {
    const zip_reader *zip;
    const zip_entry *entry;
} entry_reading;

static int read_entry(void *context, void *memory, uint64_t bytes)
{
    const entry_reading *r = context;
    return (void)bytes, zip_read(r->zip, r->entry, memory);
}

static const zip_entry *entry_of(const loader *l, const char *name)
{
    char path[1024];
    int n = snprintf(path, sizeof path, "%.*s%s", (int)l->prefix, l->zip.entries[0].name, name);
    return n > 0 && n < (int)sizeof path ? zip_find(&l->zip, path) : NULL;
}

/* ("storage", dtype, key, location, count) */
static void *make_storage(void *context, void *id)
{
    loader *l = context;
    const record *r = id;
    if (r->kind != RECORD_GROUP || r->count < 5 || r->items[1]->kind != RECORD_NAME ||
        r->items[1]->name->use != USE_STORAGE || r->items[2]->kind != RECORD_TEXT || r->items[4]->kind != RECORD_INT)
        return wrong("a storage is named in a way that is unknown");
    bk_dtype dtype = r->items[1]->name->dtype;
    int64_t count = r->items[4]->i;
    char name[300];
    snprintf(name, sizeof name, "data/%.250s", r->items[2]->text);
    const zip_entry *e = entry_of(l, name);
    if (!e)
        return wrong("a storage is missing from the archive");
    if (count < 0 || e->size % dtype_size(dtype) || (uint64_t)count != e->size / dtype_size(dtype))
        return wrong("a storage has another size than the pickle says");
    bk_tensor **slot = &l->storages[e - l->zip.entries];
    if (!*slot)
        *slot = tensor_filled(1, &count, dtype, read_entry, &(entry_reading){ &l->zip, e });
    if (*slot && tensor_dtype(*slot) != dtype)
        return wrong("a storage is named with two dtypes");
    record *s = *slot ? record_new(l, RECORD_STORAGE) : NULL;
    if (s)
        s->tensor = *slot;
    return s;
}

/* The numbers of a tuple; -1 where there are others, or too many. */
static int numbers_of(const record *r, int64_t *out)
{
    if (r->kind != RECORD_GROUP || r->count > BK_MAX_NDIM)
        return -1;
    for (size_t i = 0; i < r->count; i++) {
        if (r->items[i]->kind != RECORD_INT)
            return -1;
        out[i] = r->items[i]->i;
    }
    return (int)r->count;
}

/* (storage, offset, sizes, strides, requires_grad, ...) */
static record *rebuild_tensor(loader *l, const record *args)
{
    int64_t sizes[BK_MAX_NDIM], strides[BK_MAX_NDIM];
    if (args->count < 4 || args->items[0]->kind != RECORD_STORAGE || args->items[1]->kind != RECORD_INT)
        return wrong("a tensor is described in a way that is unknown");
    int ndim = numbers_of(args->items[2], sizes);
    if (ndim < 0 || numbers_of(args->items[3], strides) != ndim)
        return wrong("a tensor has sizes and strides that do not go together");
    record *r = record_new(l, RECORD_TENSOR);
    if (!r)
        return NULL;
    lock_take();
    r->tensor = scope_own(cell_tensor_checked(args->items[0]->tensor->cell, ndim, sizes, strides, args->items[1]->i));
    lock_give();
    bool grad = args->count > 4 && args->items[4]->kind == RECORD_INT && args->items[4]->i;
    if (!r->tensor || (grad && bk_set_requires_grad(r->tensor, true) < 0))
        return NULL;
    return r;
}

/* (tensor, requires_grad, ...): a parameter is a tensor of its own here, on the same memory. */
static record *rebuild_parameter(loader *l, const record *args)
{
    if (args->count < 2 || args->items[0]->kind != RECORD_TENSOR || args->items[1]->kind != RECORD_INT)
        return wrong("a parameter is described in a way that is unknown");
    record *r = record_new(l, RECORD_TENSOR);
    if (!r)
        return NULL;
    r->tensor = scope_own(bk_detach(args->items[0]->tensor));
    if (!r->tensor || (args->items[1]->i && bk_set_requires_grad(r->tensor, true) < 0))
        return NULL;
    return r;
}

static void *call(void *context, pickle_call how, void *callee, void *args, void *keywords)
{
    (void)how, (void)keywords;
    const record *name = callee, *list = args;
    if (name->kind != RECORD_NAME || list->kind != RECORD_GROUP)
        return wrong("something is called that is no name");
    switch (name->name->use) {
    case USE_TENSOR: return rebuild_tensor(context, list);
    case USE_PARAMETER: return rebuild_parameter(context, list);
    case USE_DICT: return record_new(context, RECORD_DICT);
    default: return record_new(context, RECORD_OTHER);
    }
}

/* --- from records to names -------------------------------------------------------------------------------------------
 */

enum { DEPTH_MOST = 64 }; /* of dicts in dicts: a name joins as many parts */

/* Adds the tensors of a dict, each name after the prefix. A dict that is met again adds nothing: it may hold itself. */
static int collect(bk_tensors *m, record *dict, buffer *prefix, int depth)
{
    if (dict->visited)
        return 0;
    if (depth > DEPTH_MOST)
        return wrong("its dicts are nested too deeply"), -1;
    dict->visited = true;
    for (size_t i = 0; i + 1 < dict->count; i += 2) {
        record *value = dict->items[i + 1];
        const record *key = dict->items[i];
        size_t length = prefix->count;
        char number[24];
        const char *text = key->kind == RECORD_TEXT ? key->text : number;
        if ((value->kind != RECORD_TENSOR && value->kind != RECORD_DICT) ||
            (key->kind != RECORD_TEXT && key->kind != RECORD_INT))
            continue;
        snprintf(number, sizeof number, "%lld", (long long)key->i);
        if (buffer_add(prefix, text, strlen(text) + 1) < 0)
            return -1;
        int status;
        if (value->kind == RECORD_TENSOR) {
            status = bk_tensors_set(m, (const char *)prefix->bytes, value->tensor);
        } else {
            prefix->bytes[prefix->count - 1] = '.';
            status = collect(m, value, prefix, depth + 1);
        }
        if (status < 0)
            return -1;
        prefix->count = length;
    }
    return 0;
}

static bk_tensors *collect_all(record *top)
{
    if (top->kind != RECORD_DICT && top->kind != RECORD_TENSOR)
        return error_null(BK_VALUE_ERROR, "the checkpoint holds neither a dict nor a tensor");
    bk_tensors *m = bk_tensors_new();
    buffer prefix = { 0 };
    int status = !m                           ? -1
                 : top->kind == RECORD_TENSOR ? bk_tensors_set(m, "", top->tensor)
                                              : collect(m, top, &prefix, 0);
    buffer_free(&prefix);
    if (status < 0) {
        bk_tensors_free(m);
        return NULL;
    }
    return m;
}

static int check_byteorder(const loader *l)
{
    const zip_entry *e = entry_of(l, "byteorder");
    if (!e)
        return 0;
    char *text = zip_read_all(&l->zip, e);
    int status = !text ? -1 : !strcmp(text, "little") ? 0 : (wrong("its numbers are big-endian"), -1);
    mem_free(text);
    return status;
}

static bk_tensors *load_pickle(loader *l)
{
    const zip_entry *e = entry_of(l, "data.pkl");
    if (!e)
        return wrong("the archive has no data.pkl");
    const pickle_maker maker = { l,    make_atom, make_group,   fill,   make_name, make_named,
                                 call, build,     make_storage, retain, release };
    size_t used;
    unsigned char *bytes = zip_read_all(&l->zip, e);
    record *top = bytes ? pickle_run(bytes, e->size, &maker, &used) : NULL;
    mem_free(bytes);
    return top ? collect_all(top) : NULL;
}

static void loader_end(loader *l)
{
    for (record *r = l->records, *next; r; r = next) {
        next = r->next;
        if (r->kind == RECORD_TENSOR)
            bk_release(r->tensor);
        mem_free(r->text);
        mem_free(r->items);
        mem_free(r);
    }
    for (int64_t i = 0; l->storages && i < l->zip.count; i++)
        bk_release(l->storages[i]);
    mem_free(l->storages);
    zip_close(&l->zip);
}

bk_tensors *torch_load(source in)
{
    loader l = { .prefix = 0 };
    if (zip_open(&l.zip, in) < 0)
        return NULL;
    bk_tensors *m = NULL;
    l.storages = mem_alloc_zero(((size_t)l.zip.count + 1) * sizeof *l.storages);
    const char *slash = l.zip.count ? strchr(l.zip.entries[0].name, '/') : NULL;
    if (slash)
        l.prefix = (size_t)(slash - l.zip.entries[0].name) + 1;
    if (!slash)
        wrong("it is a zip archive, but not one of PyTorch's");
    else if (l.storages && check_byteorder(&l) == 0)
        m = load_pickle(&l);
    loader_end(&l);
    return m;
}

bk_tensors *bk_load(const char *path) { return tensors_from_path(path, torch_load); }

/* --- saving ----------------------------------------------------------------------------------------------------------
 */

static int put_text(buffer *b, const char *text)
{
    unsigned char head[5] = { 'X' };
    store_le(head + 1, 4, strlen(text));
    return buffer_add(b, head, 5) < 0 ? -1 : buffer_add(b, text, strlen(text));
}

static int put_int(buffer *b, int64_t value)
{
    unsigned char code[10] = { 0x8a, 8 }; /* LONG1 of 8 bytes */
    store_le(code + 2, 8, (uint64_t)value);
    return buffer_add(b, code, 10);
}

static int put_plain(buffer *b, const char *text) { return buffer_add(b, text, strlen(text)); }

static int put_ints(buffer *b, int n, const int64_t *v)
{
    int status = put_plain(b, "(");
    for (int i = 0; status == 0 && i < n; i++)
        status = put_int(b, v[i]);
    return status < 0 ? -1 : put_plain(b, "t");
}

/* The opcodes that rebuild t on the storage of number `key`. Rows of calls: the first that fails ends them. */
static int put_tensor(buffer *b, const bk_tensor *t, int key)
{
    char kind[64], text[24];
    snprintf(kind, sizeof kind, "ctorch\n%s\n", storage_name(tensor_dtype(t)));
    snprintf(text, sizeof text, "%d", key);
    bool bad =
        put_plain(b, "ctorch._utils\n_rebuild_tensor_v2\n((") < 0 || put_text(b, "storage") < 0 ||
        put_plain(b, kind) < 0 || put_text(b, text) < 0 || put_text(b, "cpu") < 0 ||
        put_int(b, t->cell->value->layout->span) < 0 || put_plain(b, "tQ") < 0 || put_int(b, t->offset) < 0 ||
        put_ints(b, t->layout->ndim, t->layout->sizes) < 0 || put_ints(b, t->layout->ndim, t->layout->strides) < 0 ||
        put_plain(b, bk_requires_grad(t) ? "\x88" : "\x89") < 0 || put_plain(b, "ccollections\nOrderedDict\n)RtR") < 0;
    return bad ? -1 : 0;
}

/* The number of the storage: that of the first tensor on the same cell. */
static int key_of(const bk_tensors *m, size_t i)
{
    size_t k = 0;
    while (m->rows[k].tensor->cell != m->rows[i].tensor->cell)
        k++;
    return (int)k;
}

static int add_pickle(zip_writer *z, const bk_tensors *m)
{
    buffer b = { 0 };
    int status = put_plain(&b, "\x80\x02}(");
    for (size_t i = 0; status == 0 && i < m->count; i++)
        status = put_text(&b, m->rows[i].name) < 0 ? -1 : put_tensor(&b, m->rows[i].tensor, key_of(m, i));
    if (status == 0)
        status = put_plain(&b, "u.");
    if (status == 0)
        status = zip_add(z, "archive/data.pkl", b.bytes, b.count);
    buffer_free(&b);
    return status;
}

static int add_storage(zip_writer *z, const bk_tensor *t, int key)
{
    char name[40];
    snprintf(name, sizeof name, "archive/data/%d", key);
    lock_take();
    int status = bk_eval(t); /* the whole cell with it */
    lock_give();
    const node *n = t->cell->value;
    return status < 0 ? -1 : zip_add(z, name, n->data, (uint64_t)n->layout->span * dtype_size((bk_dtype)n->dtype));
}

int torch_save(const bk_tensors *m, sink out)
{
    static const char *const small[][2] = { { "archive/byteorder", "little" }, { "archive/version", "3\n" } };
    zip_writer z = { .out = out };
    int status = add_pickle(&z, m);
    for (size_t i = 0; status == 0 && i < m->count; i++)
        if (key_of(m, i) == (int)i)
            status = add_storage(&z, m->rows[i].tensor, (int)i);
    for (size_t i = 0; status == 0 && i < 2; i++)
        status = zip_add(&z, small[i][0], small[i][1], strlen(small[i][1]));
    return zip_finish(&z, status == 0) < 0 ? -1 : status;
}

int bk_save(const char *path, const bk_tensors *m)
{
    sink out;
    return !m || sink_open(&out, path) < 0 ? -1 : torch_save(m, out);
}
