/* settings.c: the default dtype. */
#include "ops/settings.h"

#include "core/dtype.h"
#include "core/error.h"

static bk_dtype the_default = BK_FLOAT32;

bk_dtype default_dtype(void) { return the_default; }
bk_dtype bk_get_default_dtype(void) { return the_default; }

int bk_set_default_dtype(bk_dtype d)
{
    if (!dtype_is_float(d))
        return error_int(BK_TYPE_ERROR, "only floating-point types are supported as the default type");
    the_default = d;
    return 0;
}
