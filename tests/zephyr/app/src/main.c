/* SPDX-License-Identifier: Apache-2.0 */
#if __has_include(<zephyr/kernel.h>)
#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>
#else
#include <sys/printk.h>
#include <zephyr.h>
#endif

#include "tiny.h"

int main(void)
{
	float *x = tiny_input_x();
	const float *y = tiny_output();

	for (unsigned int i = 0; i < TINY_INPUT_X_ELEMENTS; i++) {
		x[i] = (float)i - 3.0f;
	}
	if (tiny_run() != MLF_OK) {
		printk("own app: failed\n");
		return 1;
	}
	printk("own app:");
	for (unsigned int i = 0; i < TINY_OUTPUT_ELEMENTS; i++) {
		printk(" %d", (int)(y[i] * 1000.0f));
	}
	printk("\nown app: done\n");
	return 0;
}
