from veilstream.cli import main

main()
