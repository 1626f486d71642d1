/* emit_code.h: from nodes to a function of machine code. */
#ifndef BK_CPU_EMIT_CODE_H
#define BK_CPU_EMIT_CODE_H
#include "cpu/emit_ir.h"
#include "cpu/emit_x86.h"
#include "cpu/isa.h"

/* Computes n elements. address[p] is where those of place p begin; of a repeated port, where its one element is. */
typedef void (*emitted_fn)(int64_t n, char *const *address);

/* Whether the level can compute these nodes together. */
bool emit_can(const ir_code *ir, isa_level level);
/* Appends a function; returns where in the buffer it begins. */
size_t emit_function(code_buffer *b, const ir_code *ir, isa_level level);

#endif
