/* read.h: values out of tensors. */
#ifndef BK_OPS_READ_H
#define BK_OPS_READ_H
#include "core/tensor.h"
#include "cpu/view.h"

/* t's memory, evaluated; 0, or -1 with the error set. Good until t is written or released. */
int tensor_view(const bk_tensor *t, view *out);
/* Makes sure that t's cell has memory of its own, at an address that its later values keep. */
int tensor_pin(bk_tensor *t);

/* The memory of t's cell for a holder that we do not see, with a reference for storage_unexport; NULL with the error
 * set. Nothing recorded so far reads it any more; what is recorded later is evaluated at once. */
storage *tensor_export(bk_tensor *t);

#endif
