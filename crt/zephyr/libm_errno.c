/* SPDX-License-Identifier: Apache-2.0 */
/* The toolchain's libm reports range errors here; nobody reads them. */

int *__errno(void);

__attribute__((weak)) int *__errno(void) {
  static int unread;
  return &unread;
}
