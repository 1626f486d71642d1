/* pickle.h: a machine for pickles that cannot run code.
 *
 * It carries out the opcodes of protocols 2 to 5 and hands every value to a maker, which builds what it likes: the C
 * library small records, the Python front Python objects. Names are only passed on: what a name may stand for, and what
 * may be called, is the maker's table.
 *
 * Invariant: the machine holds one reference to each value on its stack and in its memo, and gives them all back.
 * Stack, memo and strings are bounded by the length of the pickle, so memory is linear in it whatever it says. */
#ifndef BK_FILES_PICKLE_H
#define BK_FILES_PICKLE_H
#include "files/io.h"

typedef enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOL,
    PICKLE_INT,  /* i */
    PICKLE_LONG, /* text: little-endian two's complement of more than eight bytes */
    PICKLE_FLOAT,
    PICKLE_TEXT, /* UTF-8, not checked */
    PICKLE_BYTES,
    PICKLE_BYTEARRAY,
    PICKLE_TUPLE,
    PICKLE_LIST,
    PICKLE_DICT, /* items: key, value, key, value */
    PICKLE_SET,
    PICKLE_FROZENSET,
} pickle_kind;

typedef struct pickle_atom {
    pickle_kind kind;
    int64_t i;
    double d;
    const char *text;
    size_t length;
} pickle_atom;

typedef enum pickle_call { CALL_REDUCE, CALL_NEW, CALL_NEW_KEYWORDS } pickle_call;

/* Everything borrows its arguments and returns owned values; NULL and -1 with the error set. */
typedef struct pickle_maker {
    void *context;
    void *(*atom)(void *context, const pickle_atom *a);
    void *(*group)(void *context, pickle_kind kind, void *const *items, size_t n);
    int (*fill)(void *context, pickle_kind kind, void *target, void *const *items, size_t n); /* LIST, DICT or SET */
    void *(*name)(void *context, const char *module, const char *name);
    void *(*named)(void *context, void *module, void *name); /* the same of two values */
    void *(*call)(void *context, pickle_call how, void *callee, void *args, void *keywords);
    int (*build)(void *context, void *object, void *state);
    void *(*persistent)(void *context, void *id);
    void *(*retain)(void *context, void *value);
    void (*release)(void *context, void *value);
} pickle_maker;

/* The value of the pickle at the start of bytes; *used is where it ends. NULL with the error set: BK_VALUE_ERROR where
 * the pickle is wrong. */
void *pickle_run(const unsigned char *bytes, size_t count, const pickle_maker *m, size_t *used);

#endif
