# Packages of an installed Tessera, which scripts/package writes: a .deb for Debian and an archive for other systems.

# The command itself writes its completion files and man pages, from the tables of its options.
install(CODE "set(program \"$<TARGET_FILE:tessera_cli>\")\nset(pages \"${PROJECT_BINARY_DIR}/share\")\n"
        CODE "set(data \"${CMAKE_INSTALL_DATADIR}\")")
install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/install_pages.cmake)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)

set(CPACK_GENERATOR "DEB;TGZ")
set(CPACK_PACKAGE_NAME tessera)
set(CPACK_PACKAGE_VENDOR "Tessera developers")
set(CPACK_PACKAGE_CONTACT "Tessera developers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "runtime for sharded tensors: library, headers and command")
set(CPACK_PACKAGE_DESCRIPTION
  "Tensors with autograd, layouts over a mesh of ranks, collectives, a stream-aware\ncaching allocator, and a flight recorder that explains failed jobs.\nLicense: MIT.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# Loaded or started if they exist: the MPI backend, and names of functions in native stacks.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "binutils, libopenmpi3")
include(CPack)
