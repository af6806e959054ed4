/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlf_store_file.h - a store's slots in a file of a POSIX machine: they outlive the program, however it
 * ends. Each erase and each program is one write to the file.
 */
#ifndef MLF_STORE_FILE_H
#define MLF_STORE_FILE_H

#include "mlf_store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Make a driver for two slots in the file `path`, which is made when it is not there; NULL: in memory
 * that is gone with the program. The file stays open until the program ends.
 * Returns 0, or -1 when the file can't be opened, resized or mapped. */
MLF_WARN_UNUSED int32_t mlf_store_file_open(mlf_store_driver_t *out_driver, const char *path,
                                            uint32_t slot_bytes);

#ifdef __cplusplus
}
#endif

#endif /* MLF_STORE_FILE_H */
