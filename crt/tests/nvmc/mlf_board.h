/* SPDX-License-Identifier: Apache-2.0 */
/* mlf_board.h - a board with small pages of flash, for tests on the host. */
#ifndef MLF_BOARD_H
#define MLF_BOARD_H

#define MLF_FLASH_CONTROLLER_BASE 0x4001E000u
#define MLF_FLASH_PAGE_BYTES 512u

#endif /* MLF_BOARD_H */
