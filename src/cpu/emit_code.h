/* emit_code.h: from nodes to a function of machine code. */
#ifndef BK_CPU_EMIT_CODE_H
#define BK_CPU_EMIT_CODE_H
#include "cpu/emit_ir.h"
#include "cpu/emit_x86.h"
#include "cpu/isa.h"

/* Computes n elements. address[p] is where those of place p begin; of a repeated port, where its one element is. */
typedef void (*emitted_fn)(int64_t n, char *const *address);

/* Behind the places stand the addresses of what is to be brought into L2 meanwhile, a line for each vector: functions
 * that compute much for what they read ask for it. */
enum { EMIT_AHEAD = 2 };

/* Whether the level can compute these nodes together. */
bool emit_can(const ir_code *ir, isa_level level);
/* Appends a function of so many places; returns where in the buffer it begins. */
size_t emit_function(code_buffer *b, const ir_code *ir, isa_level level, int places);

#endif
