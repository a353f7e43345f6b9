# Run by cmake --install. Installs what `program` writes for shells and for man below the folder `data` of the prefix. A prefix that
# ends in /usr is that of a Debian package, where completions for zsh have another folder and man pages are compressed.
file(REMOVE_RECURSE "${pages}")
execute_process(COMMAND "${program}" help --install "${pages}" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
if(CMAKE_INSTALL_PREFIX MATCHES "/usr/?$")
  file(RENAME "${pages}/zsh/site-functions" "${pages}/zsh/vendor-completions")
  file(GLOB manuals "${pages}/man/man1/*.1")
  execute_process(COMMAND gzip -9n ${manuals} COMMAND_ERROR_IS_FATAL ANY)
endif()
file(INSTALL "${pages}/" DESTINATION "${CMAKE_INSTALL_PREFIX}/${data}")
