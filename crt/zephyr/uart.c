/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uart.c - the byte pipe: reception by interrupt into a ring buffer, or by polling where the driver
 * has no interrupts. The UART is chosen in devicetree.
 */
#include "mlf_zephyr.h"

#if DT_HAS_CHOSEN(mlf_rpc_uart)
#define RPC_UART DT_CHOSEN(mlf_rpc_uart)
#elif DT_HAS_CHOSEN(zephyr_console)
#define RPC_UART DT_CHOSEN(zephyr_console)
#else
#error "Choose a UART: chosen { mlf,rpc-uart = &...; } in a devicetree overlay"
#endif

#if defined(CONFIG_UART_CONSOLE) && DT_HAS_CHOSEN(zephyr_console)
#if DT_SAME_NODE(RPC_UART, DT_CHOSEN(zephyr_console))
#error "The console prints to the UART of the RPC server: set CONFIG_UART_CONSOLE=n or choose another UART"
#endif
#endif

static const struct device *const uart = DEVICE_DT_GET(RPC_UART);

void mlf_uart_write(const uint8_t *data, size_t size) {
  for (size_t i = 0; i < size; i++) {
    uart_poll_out(uart, data[i]);
  }
}

#ifdef CONFIG_UART_INTERRUPT_DRIVEN

RING_BUF_DECLARE(received, CONFIG_MLF_UART_RX_BUFFER_SIZE);
static K_SEM_DEFINE(arrived, 0, 1);
static bool by_interrupt;
static volatile bool is_full;

static void on_interrupt(const struct device *dev, void *user_data) {
  (void)user_data;
  while (uart_irq_update(dev) && uart_irq_rx_ready(dev)) {
    uint8_t *space;
    const uint32_t capacity = ring_buf_put_claim(&received, &space, CONFIG_MLF_UART_RX_BUFFER_SIZE);
    const int got = capacity != 0u ? uart_fifo_read(dev, space, (int)capacity) : 0;

    (void)ring_buf_put_finish(&received, got > 0 ? (uint32_t)got : 0u);
    if (capacity == 0u) {
      /* What comes waits in the UART until the application has read. */
      is_full = true;
      uart_irq_rx_disable(dev);
    }
    if (got <= 0) {
      break;
    }
  }
  k_sem_give(&arrived);
}

/* A byte that came while the interrupt was off may raise none: it is fetched. */
static void receive(void) {
  uint8_t byte;
  const unsigned int key = irq_lock();

  is_full = false;
  uart_irq_rx_enable(uart);
  while (ring_buf_space_get(&received) != 0u && uart_poll_in(uart, &byte) == 0) {
    (void)ring_buf_put(&received, &byte, 1);
  }
  irq_unlock(key);
}

/* Drivers without interrupts have no callback to set; the API reports it only since 3.2. */
static bool has_interrupts(void) {
  const struct uart_driver_api *api = uart->api;

  return api->irq_callback_set != NULL && api->fifo_read != NULL && api->irq_rx_enable != NULL;
}

void mlf_uart_init(void) {
  if (!by_interrupt && has_interrupts()) {
    by_interrupt = true;
    uart_irq_rx_disable(uart);
    uart_irq_tx_disable(uart);
    uart_irq_callback_user_data_set(uart, on_interrupt, NULL);
    receive();
  }
}

static size_t read_received(uint8_t *out_data, size_t capacity) {
  const uint32_t got = ring_buf_get(&received, out_data, (uint32_t)capacity);

  if (is_full) {
    receive();
  } else if (got == 0u) {
    (void)k_sem_take(&arrived, K_FOREVER);
  }
  return got;
}

#else

void mlf_uart_init(void) {}

#endif

static size_t poll(uint8_t *out_data, size_t capacity) {
  size_t got = 0;

  while (got < capacity && uart_poll_in(uart, &out_data[got]) == 0) {
    got++;
  }
#ifdef CONFIG_ARCH_POSIX
  if (got == 0u) {
    k_sleep(K_MSEC(1)); /* simulated time stands still while a thread is busy */
  }
#endif
  return got;
}

size_t mlf_uart_window(void) {
#ifdef CONFIG_UART_INTERRUPT_DRIVEN
  return by_interrupt ? CONFIG_MLF_UART_RX_BUFFER_SIZE : 0u;
#else
  return 0;
#endif
}

/* With interrupts it sleeps until something may have come, and then may still return 0. */
size_t mlf_uart_read(uint8_t *out_data, size_t capacity) {
#ifdef CONFIG_UART_INTERRUPT_DRIVEN
  if (by_interrupt) {
    return read_received(out_data, capacity);
  }
#endif
  return poll(out_data, capacity);
}

#ifdef CONFIG_UART_USE_RUNTIME_CONFIGURE

#define LOWEST_BAUD 1200u /* to send out what is written takes long at lower ones */

/* Wait until everything that was written has left, if the driver reports that; else for the time of a long
 * FIFO. */
static void drain(uint32_t baud) {
  int32_t left_ms = 100;

#ifdef CONFIG_UART_INTERRUPT_DRIVEN
  while (by_interrupt && uart_irq_tx_complete(uart) == 0 && left_ms-- > 0) {
    k_sleep(K_MSEC(1));
  }
#endif
  k_sleep(K_USEC(2u * 10u * 1000000u / baud));
}

/* The rate in devicetree, once the driver has stated it. */
static uint32_t first_baud;

static bool get_config(struct uart_config *out_config) {
  const struct uart_driver_api *api = uart->api;

  if (CONFIG_MLF_UART_MAX_BAUD == 0 || api->configure == NULL || uart_config_get(uart, out_config) != 0) {
    return false;
  }
  if (first_baud == 0u) {
    first_baud = out_config->baudrate;
  }
  return true;
}

int mlf_uart_can_set_baud(uint32_t baud) {
  struct uart_config config;

  return get_config(&config) && (baud == 0u || (baud >= LOWEST_BAUD && baud <= CONFIG_MLF_UART_MAX_BAUD));
}

void mlf_uart_set_baud(uint32_t baud) {
  struct uart_config config;

  if (get_config(&config)) {
    drain(config.baudrate);
    config.baudrate = baud != 0u ? baud : first_baud;
    (void)uart_configure(uart, &config);
  }
}

#else

int mlf_uart_can_set_baud(uint32_t baud) {
  (void)baud;
  return 0;
}

void mlf_uart_set_baud(uint32_t baud) { (void)baud; }

#endif
