# tessera_embed(layer NAME file...): embeds files, one after another, in a layer as the bytes tessera_embedded_NAME,
# which end at tessera_embedded_NAME_end. A change to a file rebuilds them.
function(tessera_embed layer name)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/embedded_${name}.S)
  set(parts "")
  set(paths "")
  foreach(file IN LISTS ARGN)
    get_filename_component(path ${file} ABSOLUTE)
    list(APPEND paths ${path})
    string(APPEND parts "    .incbin \"${path}\"\n")
  endforeach()
  file(CONFIGURE OUTPUT ${out} @ONLY CONTENT "    .section .rodata
    .balign 16
    .globl tessera_embedded_@name@
    .globl tessera_embedded_@name@_end
    .hidden tessera_embedded_@name@
    .hidden tessera_embedded_@name@_end
tessera_embedded_@name@:
@parts@tessera_embedded_@name@_end:
    .byte 0
@TESSERA_ASSEMBLY_NOTES@")
  set_source_files_properties(${out} PROPERTIES OBJECT_DEPENDS "${paths}")
  foreach(target tessera_${layer} tessera_${layer}_mutants)
    if(TARGET ${target})
      target_sources(${target} PRIVATE ${out})
    endif()
  endforeach()
endfunction()
