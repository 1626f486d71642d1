/* bind_basics.c: products, writes of a whole tensor, and evaluation on demand. */
#include "binds.h"
#include "core/lock.h"
#include "core/memory.h"
#include "graph/plan.h"
#include "ops/elementwise.h"

static PyObject *py_matmul(const arg *a)
{
    return a[2].given ? py_out(bk_matmul(a[0].tensor, a[1].tensor), &a[2]) : py_matmul_of(a[0].tensor, a[1].tensor);
}
static PyObject *py_zero_(const arg *a) { return py_in_place(&a[0], bk_zero_(a[0].tensor)); }
static PyObject *py_copy_(const arg *a) { return py_in_place(&a[0], bk_copy_(a[0].tensor, a[1].tensor)); }
static PyObject *py_copy_number_(const arg *a)
{
    lock_take();
    int status = tensor_assign(a[0].tensor, py_number_operand(&a[1].scalar), WRITE_copy);
    lock_give();
    return py_in_place(&a[0], status);
}

static PyObject *py_sync(const arg *a)
{
    (void)a;
    if (py_flush() < 0)
        return NULL;
    Py_RETURN_NONE;
}

const binding basics_rows[] = {
    { AS_FUNCTION | AS_METHOD, "matmul(Tensor self, Tensor other, *, Tensor? out=None)", py_matmul,
      "The product of two matrices, vectors, or batches of matrices." },
    { AS_METHOD, "zero_(Tensor self)", py_zero_, "Writes 0 to every element." },
    { AS_METHOD, "copy_(Tensor self, Tensor other, bool non_blocking=False)", py_copy_,
      "Writes the elements of other, broadcast and cast." },
    { AS_METHOD, "copy_(Tensor self, Scalar other, bool non_blocking=False)", py_copy_number_, NULL },
    { AS_FUNCTION, "_fill_out(str function, Object result, Object into)", py_fill_out, NULL },
    { AS_FUNCTION, "sync()", py_sync, "Evaluates everything recorded so far." },
};
const size_t basics_row_count = sizeof basics_rows / sizeof *basics_rows;
