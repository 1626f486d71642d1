/* pickle.c: the machine (pickle.h). One function per opcode or family of opcodes, found through a table. */
#include "files/pickle.h"

#include <string.h>

#include "core/error.h"
#include "core/memory.h"

typedef struct machine {
    const pickle_maker *make;
    const unsigned char *bytes;
    size_t count, at;
    void **stack;
    size_t height, stack_room;
    size_t *marks; /* heights of the stack */
    size_t mark_count, mark_room;
    void **memo; /* NULL where nothing was put */
    size_t memo_count, memo_room, memo_next;
    bool done;
} machine;

static int wrong(const machine *m, const char *what)
{
    return error_int(BK_VALUE_ERROR, "the pickle is broken at byte %zu: %s", m->at, what);
}

/* --- bytes, stack and memo -----------------------------------------------------------------------------------------
 */

static int take(machine *m, uint64_t count, const unsigned char **out)
{
    if (count > m->count - m->at)
        return wrong(m, "it ends within an opcode");
    *out = m->bytes + m->at;
    m->at += count;
    return 0;
}

/* The little-endian number of `width` bytes that follows. */
static int take_number(machine *m, int width, uint64_t *out)
{
    const unsigned char *p = NULL;
    if (take(m, (uint64_t)width, &p) < 0)
        return -1;
    *out = load_le(p, width);
    return 0;
}

/* A line of text without its end, which must not hold a 0. */
static int take_line(machine *m, const char **out, size_t *length)
{
    const unsigned char *start = m->bytes + m->at, *end = memchr(start, '\n', m->count - m->at);
    if (!end || memchr(start, 0, (size_t)(end - start)))
        return wrong(m, "a line of text has no end");
    *out = (const char *)start;
    *length = (size_t)(end - start);
    m->at += *length + 1;
    return 0;
}

/* Steals value; NULL passes an error on. */
static int push(machine *m, void *value)
{
    if (!value)
        return -1;
    void **stack = array_grow(m->stack, &m->stack_room, m->height + 1, sizeof *stack);
    if (!stack) {
        m->make->release(m->make->context, value);
        return -1;
    }
    m->stack = stack;
    m->stack[m->height++] = value;
    return 0;
}

static size_t floor_of(const machine *m) { return m->mark_count ? m->marks[m->mark_count - 1] : 0; }

/* The n topmost values above the mark, which stay on the stack. */
static void **top(machine *m, size_t n)
{
    if (m->height - floor_of(m) < n) {
        wrong(m, "the stack is too short");
        return NULL;
    }
    return m->stack + m->height - n;
}

static void drop(machine *m, size_t n)
{
    while (n--)
        m->make->release(m->make->context, m->stack[--m->height]);
}

/* The n topmost values give way to one, which is stolen. */
static int replace(machine *m, size_t n, void *value)
{
    if (!value)
        return -1;
    drop(m, n);
    return push(m, value);
}

/* The values above the last mark, which is taken away. */
static int pop_mark(machine *m, void ***items, size_t *n)
{
    if (!m->mark_count)
        return wrong(m, "there is no mark");
    size_t from = m->marks[--m->mark_count];
    *n = m->height - from;
    *items = m->stack + from;
    return 0;
}

static int memo_put(machine *m, uint64_t index)
{
    void **value = top(m, 1);
    if (!value)
        return -1;
    if (index >= m->count)
        return wrong(m, "a number of the memo is larger than the pickle");
    if (index >= m->memo_count) {
        void **memo = array_grow(m->memo, &m->memo_room, index + 1, sizeof *memo);
        if (!memo)
            return -1;
        m->memo = memo;
        memset(memo + m->memo_count, 0, (index + 1 - m->memo_count) * sizeof *memo);
        m->memo_count = index + 1;
    }
    void *old = m->memo[index];
    m->memo[index] = m->make->retain(m->make->context, *value);
    if (old)
        m->make->release(m->make->context, old);
    m->memo_next++;
    return 0;
}

static int memo_get(machine *m, uint64_t index)
{
    if (index >= m->memo_count || !m->memo[index])
        return wrong(m, "nothing was put where the memo is read");
    return push(m, m->make->retain(m->make->context, m->memo[index]));
}

/* --- opcodes: each gets the number of its row ------------------------------------------------------------------------
 */

static int op_proto(machine *m, int width)
{
    uint64_t version = 0;
    if (take_number(m, width, &version) < 0)
        return -1;
    return version <= 5 ? 0 : wrong(m, "its protocol is unknown");
}

static int op_frame(machine *m, int width)
{
    uint64_t length = 0;
    return take_number(m, width, &length);
}

static int op_stop(machine *m, int none)
{
    (void)none;
    m->done = true;
    return top(m, 1) ? 0 : -1;
}

static int op_mark(machine *m, int none)
{
    (void)none;
    size_t *marks = array_grow(m->marks, &m->mark_room, m->mark_count + 1, sizeof *marks);
    if (!marks)
        return -1;
    m->marks = marks;
    m->marks[m->mark_count++] = m->height;
    return 0;
}

static int push_atom(machine *m, pickle_atom a) { return push(m, m->make->atom(m->make->context, &a)); }

static int op_none(machine *m, int none) { return (void)none, push_atom(m, (pickle_atom){ .kind = PICKLE_NONE }); }
static int op_bool(machine *m, int b) { return push_atom(m, (pickle_atom){ .kind = PICKLE_BOOL, .i = b }); }

/* width 4 is signed, the others are not. */
static int op_int(machine *m, int width)
{
    uint64_t n = 0;
    if (take_number(m, width, &n) < 0)
        return -1;
    return push_atom(m, (pickle_atom){ .kind = PICKLE_INT, .i = width == 4 ? (int32_t)(uint32_t)n : (int64_t)n });
}

static int op_long(machine *m, int width)
{
    uint64_t n = 0;
    const unsigned char *p = NULL;
    if (take_number(m, width, &n) < 0 || take(m, n, &p) < 0)
        return -1;
    if (n > 8)
        return push_atom(m, (pickle_atom){ .kind = PICKLE_LONG, .text = (const char *)p, .length = n });
    uint64_t value = load_le(p, (int)n);
    if (n && n < 8 && p[n - 1] & 0x80)
        value |= ~(uint64_t)0 << (8 * n);
    return push_atom(m, (pickle_atom){ .kind = PICKLE_INT, .i = (int64_t)value });
}

static int op_float(machine *m, int none)
{
    (void)none;
    const unsigned char *p = NULL;
    if (take(m, 8, &p) < 0)
        return -1;
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | p[i]; /* the one big-endian number of the format */
    pickle_atom a = { .kind = PICKLE_FLOAT };
    memcpy(&a.d, &bits, sizeof a.d);
    return push_atom(m, a);
}

static int push_text(machine *m, pickle_kind kind, int width)
{
    uint64_t n = 0;
    const unsigned char *p = NULL;
    if (take_number(m, width, &n) < 0 || take(m, n, &p) < 0)
        return -1;
    return push_atom(m, (pickle_atom){ .kind = kind, .text = (const char *)p, .length = n });
}

static int op_text(machine *m, int width) { return push_text(m, PICKLE_TEXT, width); }
static int op_bytes(machine *m, int width) { return push_text(m, PICKLE_BYTES, width); }
static int op_bytearray(machine *m, int width) { return push_text(m, PICKLE_BYTEARRAY, width); }

static int op_empty(machine *m, int kind)
{
    return push(m, m->make->group(m->make->context, (pickle_kind)kind, NULL, 0));
}

/* TUPLE1 to TUPLE3 */
static int op_tuple(machine *m, int n)
{
    void **items = top(m, (size_t)n);
    return items ? replace(m, (size_t)n, m->make->group(m->make->context, PICKLE_TUPLE, items, (size_t)n)) : -1;
}

static int op_marked(machine *m, int kind)
{
    void **items = NULL;
    size_t n = 0;
    if (pop_mark(m, &items, &n) < 0)
        return -1;
    if (kind == PICKLE_DICT && n % 2)
        return wrong(m, "a dict has a key without a value");
    return replace(m, n, m->make->group(m->make->context, (pickle_kind)kind, items, n));
}

/* The values above the mark go into what lies below it. */
static int op_fill_marked(machine *m, int kind)
{
    void **items = NULL;
    size_t n = 0;
    if (pop_mark(m, &items, &n) < 0)
        return -1;
    if (kind == PICKLE_DICT && n % 2)
        return wrong(m, "a dict has a key without a value");
    void **target = top(m, n + 1);
    if (!target || m->make->fill(m->make->context, (pickle_kind)kind, *target, items, n) < 0)
        return -1;
    drop(m, n);
    return 0;
}

static int op_fill(machine *m, int kind)
{
    size_t n = kind == PICKLE_DICT ? 2 : 1;
    void **target = top(m, n + 1);
    if (!target || m->make->fill(m->make->context, (pickle_kind)kind, *target, target + 1, n) < 0)
        return -1;
    drop(m, n);
    return 0;
}

static int op_pop(machine *m, int none)
{
    (void)none;
    if (m->mark_count && m->height == floor_of(m)) {
        m->mark_count--;
        return 0;
    }
    if (!top(m, 1))
        return -1;
    drop(m, 1);
    return 0;
}

static int op_pop_mark(machine *m, int none)
{
    (void)none;
    void **items = NULL;
    size_t n = 0;
    if (pop_mark(m, &items, &n) < 0)
        return -1;
    drop(m, n);
    return 0;
}

static int op_dup(machine *m, int none)
{
    (void)none;
    void **value = top(m, 1);
    return value ? push(m, m->make->retain(m->make->context, *value)) : -1;
}

static int op_put(machine *m, int width)
{
    uint64_t index = 0;
    return take_number(m, width, &index) < 0 ? -1 : memo_put(m, index);
}

static int op_recall(machine *m, int width)
{
    uint64_t index = 0;
    return take_number(m, width, &index) < 0 ? -1 : memo_get(m, index);
}

static int op_memoize(machine *m, int none) { return (void)none, memo_put(m, m->memo_next); }

enum { NAME_MOST = 250 }; /* of a module, and of a name in it; the longest that PyTorch writes has 40 */

static int op_global(machine *m, int none)
{
    (void)none;
    const char *module = NULL, *name = NULL;
    size_t module_length = 0, name_length = 0;
    if (take_line(m, &module, &module_length) < 0 || take_line(m, &name, &name_length) < 0)
        return -1;
    if (module_length > NAME_MOST || name_length > NAME_MOST)
        return wrong(m, "a name is too long");
    char texts[2][NAME_MOST + 1];
    memcpy(texts[0], module, module_length);
    memcpy(texts[1], name, name_length);
    texts[0][module_length] = texts[1][name_length] = 0;
    return push(m, m->make->name(m->make->context, texts[0], texts[1]));
}

static int op_stack_global(machine *m, int none)
{
    (void)none;
    void **texts = top(m, 2);
    return texts ? replace(m, 2, m->make->named(m->make->context, texts[0], texts[1])) : -1;
}

static int op_call(machine *m, int how)
{
    size_t n = how == CALL_NEW_KEYWORDS ? 3 : 2;
    void **v = top(m, n);
    if (!v)
        return -1;
    return replace(m, n, m->make->call(m->make->context, (pickle_call)how, v[0], v[1], n == 3 ? v[2] : NULL));
}

static int op_build(machine *m, int none)
{
    (void)none;
    void **v = top(m, 2);
    if (!v || m->make->build(m->make->context, v[0], v[1]) < 0)
        return -1;
    drop(m, 1);
    return 0;
}

static int op_persistent(machine *m, int none)
{
    (void)none;
    void **id = top(m, 1);
    return id ? replace(m, 1, m->make->persistent(m->make->context, *id)) : -1;
}

typedef struct opcode {
    int (*run)(machine *m, int number);
    int number;
} opcode;

/* clang-format off */
static const opcode opcodes[256] = {
    [0x80] = { op_proto, 1 },      [0x95] = { op_frame, 8 },        ['.'] = { op_stop, 0 },
    ['N'] = { op_none, 0 },        [0x88] = { op_bool, 1 },         [0x89] = { op_bool, 0 },
    ['K'] = { op_int, 1 },         ['M'] = { op_int, 2 },           ['J'] = { op_int, 4 },
    [0x8a] = { op_long, 1 },       [0x8b] = { op_long, 4 },         ['G'] = { op_float, 0 },
    [0x8c] = { op_text, 1 },       ['X'] = { op_text, 4 },          [0x8d] = { op_text, 8 },
    ['U'] = { op_text, 1 },        ['T'] = { op_text, 4 }, /* what Python 2 called a string */
    ['C'] = { op_bytes, 1 },       ['B'] = { op_bytes, 4 },         [0x8e] = { op_bytes, 8 },
    [0x96] = { op_bytearray, 8 },
    [')'] = { op_empty, PICKLE_TUPLE }, [']'] = { op_empty, PICKLE_LIST },
    ['}'] = { op_empty, PICKLE_DICT },  [0x8f] = { op_empty, PICKLE_SET },
    [0x85] = { op_tuple, 1 },      [0x86] = { op_tuple, 2 },        [0x87] = { op_tuple, 3 },
    ['('] = { op_mark, 0 },        ['t'] = { op_marked, PICKLE_TUPLE }, ['l'] = { op_marked, PICKLE_LIST },
    ['d'] = { op_marked, PICKLE_DICT }, [0x91] = { op_marked, PICKLE_FROZENSET },
    ['a'] = { op_fill, PICKLE_LIST },        ['s'] = { op_fill, PICKLE_DICT },
    ['e'] = { op_fill_marked, PICKLE_LIST }, ['u'] = { op_fill_marked, PICKLE_DICT },
    [0x90] = { op_fill_marked, PICKLE_SET },
    ['0'] = { op_pop, 0 },         ['1'] = { op_pop_mark, 0 },      ['2'] = { op_dup, 0 },
    ['q'] = { op_put, 1 },         ['r'] = { op_put, 4 },           [0x94] = { op_memoize, 0 },
    ['h'] = { op_recall, 1 },         ['j'] = { op_recall, 4 },
    ['c'] = { op_global, 0 },      [0x93] = { op_stack_global, 0 },
    ['R'] = { op_call, CALL_REDUCE }, [0x81] = { op_call, CALL_NEW }, [0x92] = { op_call, CALL_NEW_KEYWORDS },
    ['b'] = { op_build, 0 },       ['Q'] = { op_persistent, 0 },
};
/* clang-format on */

static int step(machine *m)
{
    const unsigned char *code = NULL;
    if (take(m, 1, &code) < 0)
        return -1;
    const opcode *op = &opcodes[*code];
    if (op->run)
        return op->run(m, op->number);
    return error_int(BK_VALUE_ERROR, "the pickle is broken at byte %zu: opcode 0x%02x is not one of ours", m->at,
                     *code);
}

void *pickle_run(const unsigned char *bytes, size_t count, const pickle_maker *make, size_t *used)
{
    machine m = { .make = make, .bytes = bytes, .count = count };
    int status = 0;
    while (status == 0 && !m.done)
        status = step(&m);
    void *result = status == 0 ? m.stack[--m.height] : NULL;
    drop(&m, m.height);
    for (size_t i = 0; i < m.memo_count; i++)
        if (m.memo[i])
            make->release(make->context, m.memo[i]);
    mem_free(m.stack);
    mem_free(m.marks);
    mem_free(m.memo);
    *used = m.at;
    return result;
}
