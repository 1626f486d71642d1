/* signature.h: a signature text compiled into what the argument parser walks. */
#ifndef BK_SIGNATURE_H
#define BK_SIGNATURE_H
#include "args.h"

typedef enum arg_type {
    ARG_TENSOR,
    ARG_TENSORS,
    ARG_SCALAR,
    ARG_INT,
    ARG_INTS,
    ARG_FLOAT,
    ARG_BOOL,
    ARG_TRUTH, /* of any object */
    ARG_STR,
    ARG_DTYPE,
    ARG_DEVICE,
    ARG_LAYOUT,
    ARG_MEMORY_FORMAT,
    ARG_GENERATOR,
    ARG_OBJECT,
    ARG_TYPE_COUNT
} arg_type;

enum { MAX_PARAMS = 24, MAX_SYNONYMS = 3 };

typedef struct param {
    PyObject *name;                   /* interned, as are its synonyms */
    PyObject *synonyms[MAX_SYNONYMS]; /* NumPy's words for it; NULL ends them */
    uint8_t type;                     /* arg_type */
    bool nullable;                    /* None may be passed */
    bool required;
    bool withheld;  /* a method's out: it has its default, and no caller can name it */
    uint8_t repeat; /* int[k]: k */
    bool lone;      /* of a list of ints: one that is none stands for it */
} param;

/* A row of autograd/composed.def that a call of the overload may be shown as: what its text says, read once. */
enum { SHOWN_STRIDED = 127 };
typedef struct shown_row {
    int16_t row;
    int8_t ndim; /* of argument 0; -1: any; SHOWN_STRIDED: any, if it does not lie row-major */
    bool list;   /* argument 0 is one */
    bool flat;   /* no gradient follows what it writes */
    uint8_t count, may_miss;
    uint8_t argument[8];
} shown_row;

typedef struct overload {
    bound_fn call;
    shown_row *shown; /* the first that fits is taken */
    uint8_t shown_count;
    uint8_t n;          /* parameters */
    uint8_t positional; /* those before the star */
    uint8_t required;   /* the positional ones that have no default */
    uint8_t withheld;   /* how many are */
    uint8_t hidden;     /* 1 when the first is a method's self, which texts and counts leave out */
    uint8_t out;        /* which parameter is out; as many as there are: none */
    uint8_t out_row;    /* out.c */
    int8_t spread;      /* the parameter that takes any number of ints, or -1 */
    param *params;
    arg *defaults;
} overload;

extern const char *const arg_type_names[ARG_TYPE_COUNT]; /* as error texts call them */

/* Fills *out. Returns -1 with SystemError for a text that is not a signature. */
int signature_compile(const char *text, bool method, overload *out);
void signature_free(overload *o);
/* The parameter a keyword names, NumPy's words included; -1 for none. A method's self has no name. */
int signature_find(const overload *o, PyObject *keyword);
/* "(Tensor input, int dim, bool keepdim = False)" */
PyObject *signature_show(const overload *o, const char *text);
/* How long the function's name is in the text. */
size_t signature_name_length(const char *text);

#endif
