# SPDX-License-Identifier: Apache-2.0
#
# A runner for "west flash" that loads the image through any GDB server: QEMU's, OpenOCD's, pyOCD's, a probe's
# own. For boards that have no runner in Zephyr, and as a pattern for a runner of your own.
#
# In an application that mlf-sdk generated, put these lines into a file runner.cmake; in one of your own, into
# CMakeLists.txt before find_package(Zephyr ...), with the path of this file:
#
#   set(MLF_GDB_SERVER localhost:3333)
#   include(crt/zephyr/gdb_runner.cmake)
#
# then "west flash" (or "mlf-sdk flash .") does the rest; "west flash -- HOST:PORT" takes another server.
# Write a server with its host: west fails on an argument that is a bare number.
#
# The board starts from its new vector table; the image is read back and compared.

if(NOT CMAKE_SCRIPT_MODE_FILE)
  if(NOT DEFINED MLF_GDB_SERVER)
    set(MLF_GDB_SERVER localhost:3333)
  endif()
  # West starts "<command> <build folder> <arguments>": CMake takes a script behind the folder.
  set_property(GLOBAL APPEND PROPERTY ZEPHYR_RUNNERS misc-flasher)
  set_property(GLOBAL PROPERTY BOARD_RUNNER_ARGS_misc_flasher
    ${CMAKE_COMMAND} -P ${CMAKE_CURRENT_LIST_FILE} ${MLF_GDB_SERVER})
  set(BOARD_FLASH_RUNNER misc-flasher)
  return()
endif()

cmake_policy(VERSION 3.20)
set(build ${CMAKE_ARGV1})
math(EXPR last "${CMAKE_ARGC} - 1")
set(server ${CMAKE_ARGV${last}})

find_program(gdb NAMES gdb-multiarch arm-none-eabi-gdb arm-zephyr-eabi-gdb)
if(NOT gdb)
  message(FATAL_ERROR "required program gdb-multiarch not found")
endif()

# In a script file the first command that fails ends GDB with an error; with -ex it would go on.
set(elf ${build}/zephyr/zephyr.elf)
set(script ${build}/gdb_runner.gdb)
file(WRITE ${script} "\
set confirm off
set pagination off
set width 0
set remotetimeout 5
set tcp connect-timeout 5
exec-file \"${elf}\"
target remote ${server}
load
compare-sections
symbol-file \"${elf}\"
set $sp = *(unsigned int *)&_vector_start
set $pc = *((unsigned int *)&_vector_start + 1)
set $xpsr = 0x01000000
detach
echo gdb_runner: done\\n
")
execute_process(
  COMMAND ${gdb} -nx -batch -x ${script}
  RESULT_VARIABLE code
  OUTPUT_VARIABLE said
  ERROR_VARIABLE said
  ECHO_OUTPUT_VARIABLE
  ECHO_ERROR_VARIABLE
)
if(NOT code EQUAL 0 OR said MATCHES "MIS-MATCHED" OR NOT said MATCHES "gdb_runner: done")
  message(FATAL_ERROR "GDB did not load the image through ${server}")
endif()
