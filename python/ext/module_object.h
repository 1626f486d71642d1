/* module_object.h: the base type of nn.Module. */
#ifndef BK_MODULE_OBJECT_H
#define BK_MODULE_OBJECT_H
#include "pybrisk.h"

int module_object_init(PyObject *module);

#endif
